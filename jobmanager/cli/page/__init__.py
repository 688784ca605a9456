"""Shows jobs to people and programs: the web page, the metrics, the doctor."""
