"""Temporal joins: inner, left, anti, and with a condition."""
