"""The physical plan: stages, vertices, channels, and the recovery of each."""
