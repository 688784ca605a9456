"""Live logs: sources that grow while a job reads them, addressed by positions in each partition."""
