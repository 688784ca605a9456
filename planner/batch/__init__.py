"""The batch twin: runs the same plan as Spark SQL."""
