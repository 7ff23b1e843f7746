"""DataFrame in, DataFrame out, and the plain values that decide what such a step does.

No session, no path, no clock, no randomness, and no action: callers decide when a frame is computed.
"""
