"""Aggregation by window: hopping, sessions, counts, snapshots."""
