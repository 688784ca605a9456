"""Verbs that do not depend on each other."""
