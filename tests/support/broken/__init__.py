"""What damages, delays or fills things for the tests of faults."""
