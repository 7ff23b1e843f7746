"""What consumer lag would do to rows and labels, event by event: the slow, obvious simulation."""
