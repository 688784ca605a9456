"""Checkpoints and journals: what makes a vertex restorable."""
