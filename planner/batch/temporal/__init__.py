"""Windows, lifetimes and temporal pairs as Spark SQL."""
