"""Expressions of a plan as Spark SQL text: pure, without pyspark."""

from planner.spark_sql.casts import MARK, failure, floor_divide
from planner.spark_sql.errors import BatchDataError, BatchFailedError, UnsupportedInBatchError
from planner.spark_sql.expressions import to_sql
from planner.spark_sql.types import physical, type_name

__all__ = [
    "MARK",
    "BatchDataError",
    "BatchFailedError",
    "UnsupportedInBatchError",
    "failure",
    "floor_divide",
    "physical",
    "to_sql",
    "type_name",
]
