"""Mistakes in a query. Each message also explains the correction."""

from __future__ import annotations

from difflib import get_close_matches

from rstream.errors import UsageError, error_class


class InvalidPlanError(UsageError):
    """A query, or the plan made of it, that cannot be run."""

    message = "{reason}"

    # Subclasses with fields of their own instead of a reason do not call this.
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@error_class
class UnknownColumnError(InvalidPlanError):
    """An expression names a column that its input does not have."""

    column: str
    known: tuple[str, ...]
    where: str

    def __str__(self) -> str:
        near = get_close_matches(self.column, self.known, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        columns = ", ".join(self.known) or "(none)"
        return f"no column {self.column!r} in {self.where}{hint} The columns are: {columns}"


@error_class
class TooMuchToSortError(InvalidPlanError):
    """The delay makes a source buffer more rows than fit into memory, to sort them."""

    path: str
    columns: str
    rows: int
    size: int
    partitions: int
    limit: int

    def __str__(self) -> str:
        return (
            f"source {self.path}: its rows are so far out of order that {self.rows:,} of them "
            f"({self.size / 2**30:.1f} GiB) would wait at once in one of {self.partitions} "
            f"partitions; the limit is {self.limit / 2**30:g} GiB (WAITING_BYTES_MAX). Sort the "
            f"rows by {self.columns} first, for example with DuckDB: COPY (SELECT * FROM "
            f"'{self.path}' ORDER BY {self.columns}) TO 'sorted.parquet'; or read fewer columns, "
            "give more partitions=, or a delay= after which later rows are dropped"
        )


@error_class
class UnsortableTimesError(InvalidPlanError):
    """The times of a source are further apart than the longest delay."""

    path: str

    message = (
        "source {path}: rows out of order are further apart than 64 bits of "
        "microseconds; check the unit of the times"
    )


@error_class
class ExpressionTypeError(InvalidPlanError):
    """An operator does not take the types of its arguments."""

    operation: str
    types: tuple[str, ...]
    expression: str

    def __str__(self) -> str:
        types = " and ".join(self.types)
        return f"{self.operation!r} does not take {types}, in {self.expression}"


@error_class
class InvalidDurationError(InvalidPlanError):
    """A duration or a time that cannot be parsed."""

    value: str
    reason: str

    message = "{value} {reason}"


@error_class
class EvaluationError(UsageError):
    """A value in the data that an expression cannot handle, such as a cast that fails."""

    expression: str
    reason: str

    message = "cannot evaluate {expression}: {reason}"


class UnknownOutputError(UsageError):
    """No output of a job has this name, or it has several and none was named."""

    def __init__(self, name: str | None, names: tuple[str, ...]) -> None:
        super().__init__(name, names)
        self.name, self.names = name, names

    def __str__(self) -> str:
        hint = "name one of them" if self.name is None else f"none is called {self.name!r}"
        return f"the outputs of this job are {', '.join(self.names)}: {hint}"
