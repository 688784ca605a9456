"""An instance host: runs the vertices assigned to it, in a Spark task or on threads."""
