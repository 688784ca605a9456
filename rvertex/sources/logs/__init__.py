"""Live logs: sources that grow while a job reads them, by positions of their own."""
