"""Changing a job that runs: savepoints, another query, back to the former one."""
