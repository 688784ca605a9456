"""Spark as the engine. Other files import what is named here."""

from rvertex.host.spark.body import SparkHostBody
from rvertex.host.spark.context import LOG_KEPT_US, remove_old_logs, spark_context
from rvertex.host.spark.executor import SparkExecutor

__all__ = ["LOG_KEPT_US", "SparkExecutor", "SparkHostBody", "remove_old_logs", "spark_context"]
