"""What several benchmarks share: comparing side by side, tables of a chosen shape, traffic into a broker."""
