"""A pipeline's life in memory: the same rules with plain lists in place of tables, for scenarios and properties."""
