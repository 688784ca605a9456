"""A job's root: how its files are written, checked and trusted."""
