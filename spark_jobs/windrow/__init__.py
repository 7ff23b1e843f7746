"""Windrow: served features joined once with all their labels, interval by interval."""
