"""Latency under an open-loop load: ours, Spark and Flink."""
