"""Rewrites whole queries and statements of other engines to compiled spellings."""
