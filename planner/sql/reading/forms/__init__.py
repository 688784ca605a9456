"""Rewrites the spellings of other engines in parsed trees to the spellings that are compiled."""
