"""The physical plan: stages, vertices, channels, and how each is recovered."""
