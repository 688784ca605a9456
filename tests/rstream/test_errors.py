"""Errors say what happened and who must act, and survive pickling."""

from __future__ import annotations

import pickle

import pytest

from rstream import errors
from rstream.transport.control import DisconnectedError

EXAMPLES = [
    (errors.SequenceGapError("s", 5, 3), "stream s: write at seq 5 would leave a gap"),
    (errors.SequenceDiscardedError("s", 5, 9), "seq 5 was garbage collected"),
    (errors.SequenceNotReadyError("s", 5, 3), "seq 5 is past the end"),
    (errors.SequenceLostError("s", 5), "seq 5 was lost with its worker"),
    (
        errors.SequenceConflictError("s", 5, "[1, 2) x=1", "[1, 2) x=2"),
        "seq 5 was written twice with different content, first [1, 2) x=1, then [1, 2) x=2",
    ),
    (errors.CorruptSegmentError("p", "why"), "file p is corrupt: why"),
    (errors.SegmentFormatError("p", 4, 3), "file p has format version 4"),
    (errors.InvalidBatchError("s", "why"), "the batch does not fit: why"),
    (errors.BackPressureError("s", 1.5), "its memory stayed full for 1.5 s"),
    (errors.StoreError("p", "why"), "store: p: why"),
    (errors.UnauthorizedError(), "did not send the secret of this job"),
    (errors.MissingSecretError("p", "env:X", "why"), "p is env:X, but why: provide it"),
    (errors.SecretInPathError("ftp://me@h/x"), "ftp://me@h/x holds a password"),
    (DisconnectedError("p"), "peer p is not connected"),
]


@pytest.mark.parametrize(("error", "text"), EXAMPLES)
def test_errors_have_text_family_and_can_be_pickled(
    error: errors.StreamEngineError, text: str
) -> None:
    assert text in str(error)
    families = (errors.UsageError, errors.OperatingError, errors.IntegrityError)
    assert sum(isinstance(error, family) for family in families) == 1
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
