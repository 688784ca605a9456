"""Programs that run inside other engines, and their clusters."""
