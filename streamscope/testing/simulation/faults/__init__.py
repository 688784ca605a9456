"""The faults of simulated jobs."""
