"""What the test kit raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class NotDeterministicError(AssertionError):
    """A query gave two answers for one input; the message shows the difference and its cause."""


class RepeatedDifferentlyError(Exception):
    """A vertex that was killed computed another item than before."""

    def __init__(self, stage: str, item: pa.RecordBatch) -> None:
        super().__init__(stage, item)
        self.stage, self.item = stage, item

    def __str__(self) -> str:
        return f"stage {self.stage} repeated an item differently: {self.item.to_pylist()[0]}"


class JobUnderFaultsError(AssertionError):
    """A simulated job lost its answer, or broke another law; the text has its seed."""
