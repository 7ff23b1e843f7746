"""Realistic traffic with a known expected result, and the producer that sends it to a real broker."""
