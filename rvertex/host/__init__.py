"""An instance host: it runs the vertices placed on it, on Spark or on threads."""
