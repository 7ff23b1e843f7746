"""What people and the daily run do beside the pipeline: health, maintenance, override, rollback, snapshots."""
