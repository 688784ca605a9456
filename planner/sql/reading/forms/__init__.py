"""Rewrites other spellings to the spellings that are compiled, tree for tree."""
