"""User code in the batch twin, which runs the same plan on Spark."""
