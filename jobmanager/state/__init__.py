"""The state of a job and queries over it. Pure."""
