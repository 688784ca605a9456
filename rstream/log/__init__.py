"""A stream: its volatile tail, its durable segments, its writers and readers."""
