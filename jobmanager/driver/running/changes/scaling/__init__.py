"""Determines how many vertices the stages of a job get, and which keys each vertex owns."""
