"""The shell around the job manager: it performs instructions and feeds notices back."""
