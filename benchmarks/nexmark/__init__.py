"""Nexmark: events, queries, the systems that run them side by side, and the report."""
