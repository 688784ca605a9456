"""The batch twin of a job: runs it and compares the answers."""
