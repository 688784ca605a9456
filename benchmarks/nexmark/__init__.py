"""Nexmark: events, queries, the systems that run them, and the report."""
