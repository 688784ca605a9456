"""Live jobs on Spark that are killed and frozen again and again: ``python -m tests.kills``.

A job reads topics that fill meanwhile and delivers into a topic and a table; afterwards both must
hold, row for row, what Spark SQL computes as a batch from what is in the topics.
"""
