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
