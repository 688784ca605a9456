"""What shows jobs to people and programs: the page, the metrics, the doctor."""
