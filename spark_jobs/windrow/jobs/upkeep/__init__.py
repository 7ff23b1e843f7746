"""What people and the daily run do outside the regular run: health, maintenance, override, rollback, snapshots."""
