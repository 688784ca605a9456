"""A Flight call checks each batch that it receives.

Not covered: pyarrow's own processing of a batch before the check.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from jobmanager.intake.config import IntakeConfig
from jobmanager.intake.errors import PostError
from jobmanager.intake.flight_put import Put
from jobmanager.intake.service import IntakeService

if TYPE_CHECKING:
    from pathlib import Path


def test_untrusted_offsets_are_checked_before_use(tmp_path: Path) -> None:
    """Offsets may point outside of the buffer; here they claim a text of a gigabyte."""
    batch = pa.record_batch({"x": ["abc", "defgh"]})
    true, lying = (struct.pack("<3i", 0, 3, end) for end in (8, 1 << 30))
    message = batch.serialize().to_pybytes()
    assert message.count(true) == 1
    schema, batch = (
        batch.schema,
        pa.ipc.read_record_batch(message.replace(true, lying), batch.schema),
    )
    answers: list[bytes] = []
    service = IntakeService(IntakeConfig(str(tmp_path), {"s": schema}))
    try:
        with (
            pytest.raises(PostError, match="not an Arrow"),
            Put(service, "s", answers.append) as put,
        ):
            put.take(batch, b"")
    finally:
        service.close()
    assert b"not an Arrow" in answers[0]
