"""Joins of two streams: by overlapping lifetimes, by the time between rows, and to the nearest."""
