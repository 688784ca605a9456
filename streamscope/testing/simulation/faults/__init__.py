"""What goes wrong in simulated jobs."""
