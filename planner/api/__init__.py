"""The fluent interface: streams, expressions, aggregates, windows, sources."""
