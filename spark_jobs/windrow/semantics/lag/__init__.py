"""What consumer lag would do to rows and labels: the slow, obvious simulation, and the statistics of label delays."""
