"""MATCH_RECOGNIZE: patterns over the rows of a key."""
