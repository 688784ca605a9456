"""The functions that users call: run, resume, collect."""
