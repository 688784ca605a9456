"""Recomputes what a job did from its retained inputs, streams and checkpoints; writes nothing."""
