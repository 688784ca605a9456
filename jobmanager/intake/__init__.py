"""The intake server: producers push rows over HTTP or Flight into the logs of a folder."""
