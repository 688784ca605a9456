"""Infers columns from the first rows of a file, when a job is planned."""
