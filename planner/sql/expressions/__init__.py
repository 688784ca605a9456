"""Functions, aggregates and windows of SQL, scalar expressions, and the names that they may use."""
