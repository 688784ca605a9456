"""Keyed processes: state and timers per key, and the loop that calls the code."""
