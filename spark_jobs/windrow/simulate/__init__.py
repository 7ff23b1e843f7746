"""Realistic traffic with known truth, and the producer that brings it to a real broker."""
