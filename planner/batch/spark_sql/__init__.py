"""Expressions of a plan as Spark SQL text; does not import pyspark."""

from planner.batch.spark_sql.containers import restored as restored
from planner.batch.spark_sql.expressions import to_sql as to_sql
from planner.expressions.spark.casts import failure as failure, floor_divide as floor_divide
from planner.expressions.spark.errors import (
    BatchDataError as BatchDataError,
    BatchFailedError as BatchFailedError,
    UnsupportedInBatchError as UnsupportedInBatchError,
    explained as explained,
)
from planner.expressions.spark.types import physical as physical, type_name as type_name
