"""Kafka topics as live logs. Only this package imports the Kafka client."""
