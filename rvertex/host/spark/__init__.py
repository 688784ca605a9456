"""Spark as the engine. Import names from here, not from the modules of this package."""

from rvertex.host.spark.body import SparkHostBody as SparkHostBody
from rvertex.host.spark.context import (
    LOG_KEPT_US as LOG_KEPT_US,
    remove_old_logs as remove_old_logs,
    spark_context as spark_context,
)
from rvertex.host.spark.executor import SparkExecutor as SparkExecutor
