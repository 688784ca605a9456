"""Tables that CREATE declares: their columns, options and connectors."""
