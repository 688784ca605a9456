"""Snapshot windows: a window between every two neighbouring endpoints."""
