"""Runs of a query that need more than a schedule: another process, a growing input."""
