"""Commands that send records to the topics of pipelines: simulated traffic, and canaries."""
