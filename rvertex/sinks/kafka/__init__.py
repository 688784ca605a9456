"""Delivers into a topic of Kafka: in transactions, or with headers by which repeats are known."""
