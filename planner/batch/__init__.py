"""The batch twin: the same plan as Spark SQL."""
