"""Expressions of a plan as Spark SQL text; does not import pyspark."""

from planner.batch.spark_sql.containers import restored
from planner.batch.spark_sql.expressions import to_sql
from planner.expressions.spark.casts import failure, floor_divide
from planner.expressions.spark.errors import (
    BatchDataError,
    BatchFailedError,
    UnsupportedInBatchError,
    explained,
)
from planner.expressions.spark.types import physical, type_name

__all__ = [
    "BatchDataError",
    "BatchFailedError",
    "UnsupportedInBatchError",
    "explained",
    "failure",
    "floor_divide",
    "physical",
    "restored",
    "to_sql",
    "type_name",
]
