"""A pipeline's whole life in memory: the same rules on plain lists instead of tables, for scenarios and properties."""
