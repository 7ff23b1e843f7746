"""The lag simulation over DataFrames: the same outcomes as `semantics.lag`, in a few passes."""
