"""The sources of a job: their descriptions, their units, and readers that start at any row."""
