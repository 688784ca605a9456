"""Rules that compute the same result with less work, and a trace of their changes."""
