"""Rules that give the same answer for less work, and a trace of what they changed."""
