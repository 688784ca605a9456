"""Real servers for tests: a Kafka broker and a PostgreSQL server from packages of PyPI."""
