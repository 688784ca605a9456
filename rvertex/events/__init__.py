"""Columns of events as arrays: helpers that stand between Arrow and numpy."""
