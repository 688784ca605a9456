"""What the first rows of a file say of its columns, when a job is planned."""
