"""Spark as the engine. Import names from here, not from the modules of this package."""

from rvertex.host.spark.body import SparkHostBody
from rvertex.host.spark.context import LOG_KEPT_US, remove_old_logs, spark_context
from rvertex.host.spark.executor import SparkExecutor

__all__ = ["LOG_KEPT_US", "SparkExecutor", "SparkHostBody", "remove_old_logs", "spark_context"]
