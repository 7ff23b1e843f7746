"""Delta tables as such: opened, looked up, scanned, appended to once, locked. Only `staging` knows training rows."""
