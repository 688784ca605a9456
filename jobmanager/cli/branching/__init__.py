"""Branches of a running job: a copy of its state in another root, where another query runs."""
