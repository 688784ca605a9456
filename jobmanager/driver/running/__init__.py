"""What users call: run, resume, collect."""
