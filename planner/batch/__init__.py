"""The batch twin: runs the same plan as Spark SQL, to check the results of the stream."""
