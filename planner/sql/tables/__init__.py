"""What CREATE says: columns, options, and the connectors that they are for."""
