"""Parses SQL text into checked trees, and literals into values."""
