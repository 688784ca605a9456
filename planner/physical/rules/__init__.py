"""Rules over stages, applied before their vertices are built."""
