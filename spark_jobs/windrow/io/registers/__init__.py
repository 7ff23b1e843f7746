"""The small tables that record what was seen and decided: clock, plans, pipeline files, judgements, publications."""
