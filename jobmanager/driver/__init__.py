"""The shell around the job manager: it performs its instructions and sends it notices."""
