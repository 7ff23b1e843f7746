"""From landed rows to the training table: what a join reads, candidates, publication, past versions."""
