"""What a user can get wrong in a query, each with the words to put it right."""

from __future__ import annotations

from difflib import get_close_matches

from rstream.errors import UsageError


class InvalidPlanError(UsageError):
    """A query, or the plan made of it, that cannot be run."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class UnknownColumnError(InvalidPlanError):
    """An expression names a column that its input does not have."""

    def __init__(self, column: str, known: tuple[str, ...], where: str) -> None:
        super().__init__(column)
        self.args = (column, known, where)
        self.column, self.known, self.where = column, known, where

    def __str__(self) -> str:
        near = get_close_matches(self.column, self.known, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        columns = ", ".join(self.known) or "(none)"
        return f"no column {self.column!r} in {self.where}{hint} The columns are: {columns}"


class TooMuchToSortError(InvalidPlanError):
    """More rows than may lie in memory would wait for rows that start earlier."""

    def __init__(
        self, path: str, columns: str, rows: int, size: int, partitions: int, limit: int
    ) -> None:
        super().__init__(path)
        self.args = (path, columns, rows, size, partitions, limit)
        self.path, self.columns, self.rows = path, columns, rows
        self.size, self.partitions, self.limit = size, partitions, limit

    def __str__(self) -> str:
        return (
            f"source {self.path}: its rows are so far out of order that {self.rows:,} of them "
            f"({self.size / 2**30:.1f} GiB) would wait at once in one of {self.partitions} "
            f"partitions; the limit is {self.limit / 2**30:g} GiB (WAITING_BYTES_MAX). Sort the "
            f"rows by {self.columns} first, for example with DuckDB: COPY (SELECT * FROM "
            f"'{self.path}' ORDER BY {self.columns}) TO 'sorted.parquet'; or read fewer columns, "
            "give more partitions=, or a delay= after which later rows are dropped"
        )


class UnsortableTimesError(InvalidPlanError):
    """The times of a source are further apart than a delay can say."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"source {self.path}: rows out of order are further apart than 64 bits of "
            "microseconds; look whether the times are in the right unit"
        )


class ExpressionTypeError(InvalidPlanError):
    """An operator was given types that it does not take."""

    def __init__(self, operation: str, types: tuple[str, ...], expression: str) -> None:
        super().__init__(operation)
        self.args = (operation, types, expression)
        self.operation, self.types, self.expression = operation, types, expression

    def __str__(self) -> str:
        types = " and ".join(self.types)
        return f"{self.operation!r} does not take {types}, in {self.expression}"


class InvalidDurationError(InvalidPlanError):
    """A duration or a time that cannot be read."""

    def __init__(self, value: str, reason: str) -> None:
        super().__init__(value)
        self.args = (value, reason)
        self.value, self.reason = value, reason

    def __str__(self) -> str:
        return f"{self.value} {self.reason}"


class EvaluationError(UsageError):
    """A value of the data that an expression cannot handle (a cast that fails, for example)."""

    def __init__(self, expression: str, reason: str) -> None:
        super().__init__(expression, reason)
        self.expression, self.reason = expression, reason

    def __str__(self) -> str:
        return f"cannot evaluate {self.expression}: {self.reason}"
