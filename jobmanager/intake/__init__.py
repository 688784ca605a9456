"""The server that takes rows which others push: HTTP in front of the logs of a folder."""
