"""What the job manager knows, and questions asked of it. Pure."""
