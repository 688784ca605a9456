"""Kafka topics as live logs. The client's package is imported here alone."""
