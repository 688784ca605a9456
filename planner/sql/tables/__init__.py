"""CREATE: columns, options, and the connectors."""
