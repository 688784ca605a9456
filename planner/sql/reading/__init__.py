"""Parses a text into a checked tree, and its literals into values."""
