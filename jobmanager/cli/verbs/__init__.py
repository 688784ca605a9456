"""Verbs that need nothing of the others."""
