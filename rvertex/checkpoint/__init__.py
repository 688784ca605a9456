"""Checkpoints and journals, from which a vertex is restored."""
