"""What is wrong with a text in SQL, and where."""

from __future__ import annotations

from planner.errors import InvalidPlanError


class SqlError(InvalidPlanError):
    """A statement that cannot be read, or that asks for what there is not.

    ``line`` and ``column`` count from 1; ``code`` is that line, ``width`` the characters to mark.
    """

    def __init__(self, reason: str, code: str, line: int, column: int, width: int) -> None:
        super().__init__(reason)
        self.args = (reason, code, line, column, width)
        self.code, self.line, self.column, self.width = code, line, column, width

    def __str__(self) -> str:
        before = "".join(c if c == "\t" else " " for c in self.code[: self.column - 1])
        return (
            f"line {self.line}, column {self.column}: {self.reason}\n"
            f"  {self.code}\n"
            f"  {before}{'^' * self.width}"
        )
