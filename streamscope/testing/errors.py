"""The errors of the test kit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class NotDeterministicError(AssertionError):
    """A query had two results for one input. The message shows the difference and its cause."""


class RepeatedDifferentlyError(Exception):
    """A killed and restarted vertex computed another item than before."""

    def __init__(self, stage: str, item: pa.RecordBatch) -> None:
        super().__init__(stage, item)
        self.stage, self.item = stage, item

    def __str__(self) -> str:
        return f"stage {self.stage} repeated an item differently: {self.item.to_pylist()[0]}"


class JobUnderFaultsError(AssertionError):
    """A simulated job had a wrong result, or broke another law. The message has its seed."""
