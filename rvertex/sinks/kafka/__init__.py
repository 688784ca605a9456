"""Delivers into a Kafka topic: in transactions, or with headers that identify repeats."""
