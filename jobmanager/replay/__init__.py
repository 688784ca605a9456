"""Recomputes parts of a job from its retained inputs, streams and checkpoints. Read-only."""
