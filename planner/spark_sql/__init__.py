"""Expressions of a plan as Spark SQL text: pure, without pyspark."""

from planner.spark_sql import clock_windows, data_windows, pairs
from planner.spark_sql.casts import failure, floor_divide
from planner.spark_sql.errors import (
    BatchDataError,
    BatchFailedError,
    UnsupportedInBatchError,
    explained,
)
from planner.spark_sql.expressions import to_sql
from planner.spark_sql.types import physical, type_name

__all__ = [
    "BatchDataError",
    "BatchFailedError",
    "UnsupportedInBatchError",
    "clock_windows",
    "data_windows",
    "explained",
    "failure",
    "floor_divide",
    "pairs",
    "physical",
    "to_sql",
    "type_name",
]
