"""Which intervals a run works on, at which pins, and what a rebuild of a range would do."""
