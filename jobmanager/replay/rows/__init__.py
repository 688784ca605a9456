"""Explains rows of results and states: their input rows, and differences of two versions."""
