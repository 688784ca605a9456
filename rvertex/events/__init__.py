"""Helpers for columns of events as Arrow and numpy arrays."""
