"""Commands about the state of all pipelines."""
