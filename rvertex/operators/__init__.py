"""Operators: deterministic steps over runs of events."""
