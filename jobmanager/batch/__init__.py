"""The batch twin of a job: run it, compare with it."""
