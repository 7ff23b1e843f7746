"""DataFrame in, DataFrame out. No session, no path, no clock, no randomness."""
