"""The lag analysis: events of a range, the table of outcomes, delays seen in landed rows."""
