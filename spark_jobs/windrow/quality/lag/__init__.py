"""The report of a lag analysis: findings in words, plots, one page."""
