"""Logs of rows that producers push: one writer appends, readers read by position."""
