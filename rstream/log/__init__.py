"""A stream: its volatile tail, its durable segments, who writes and who reads."""
