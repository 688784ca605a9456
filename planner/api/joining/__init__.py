"""Joins of two streams: while both rows live, by the time between them, and to the nearest."""
