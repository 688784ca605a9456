"""Pauses after kills under an open-loop load: ours, Spark and Flink."""
