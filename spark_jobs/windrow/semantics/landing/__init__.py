"""Rules of landing: which offsets come next, what is lost, and the clock after a batch."""
