"""Rewrites operators and statements that only one engine has."""
