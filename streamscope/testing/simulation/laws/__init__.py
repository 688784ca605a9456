"""Laws that hold in simulated jobs under all faults."""
