"""Savepoints of running jobs, and their export."""
