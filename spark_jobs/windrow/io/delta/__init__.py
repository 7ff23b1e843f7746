"""Delta tables as such: opened, looked up, scanned, appended to once, locked. Nothing here knows what a row means."""
