"""Live jobs on Spark that are repeatedly killed and frozen: ``python -m tests.kills``.

A job reads growing topics and delivers into a topic and a table. In the end both must have exactly
the rows that Spark SQL computes as a batch over the topics.
"""
