"""Values of messages become rows, many at once; a value that does not is found and named."""
