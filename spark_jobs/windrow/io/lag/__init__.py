"""What a lag analysis reads from the landing and clock tables, and the table that it writes."""
