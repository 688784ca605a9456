"""Functions, aggregates and windows of SQL, scalar expressions, and the names they may use."""
