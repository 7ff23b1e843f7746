"""Commands that keep tables, and that take out of them what must go."""
