"""Items and the validation of external batches."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rstream import InvalidBatchError, Items, SeqRange, item_schema
from rstream.items.batch import (
    cti_batch,
    empty_events,
    event_schema,
    only_events,
    payload_schema,
    validate_items,
)
from tests.support.content import PAYLOAD, SCHEMA, items


def changed(name: str, values: list[object]) -> pa.RecordBatch:
    """Three items with one column replaced."""
    batch = items(0, 3)
    at = batch.schema.get_field_index(name)
    return batch.set_column(
        at, batch.schema.field(at), pa.array(values, batch.schema.field(at).type)
    )


def test_valid_items_are_accepted() -> None:
    validate_items("s", items(0, 20), SCHEMA)
    validate_items("s", items(0, 0), SCHEMA)
    validate_items("s", cti_batch(5, SCHEMA), SCHEMA)


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (items(0, 3).drop_columns(["name"]), "expected columns"),
        (changed("_kind", [0, 2, 0]), "neither 0 nor 1"),
        (changed("_ve", [1, 1, 5]), "row 1: an event has _vs == _ve"),
        (changed("_vs", [0, None, 2]), "_vs has nulls"),
    ],
)
def test_invalid_items_are_rejected_with_the_reason(batch: pa.RecordBatch, reason: str) -> None:
    with pytest.raises(InvalidBatchError, match=reason):
        validate_items("s", batch, SCHEMA)


def test_the_payload_schema_is_restored_from_the_item_schema() -> None:
    assert payload_schema(item_schema(PAYLOAD)).equals(PAYLOAD)
    assert event_schema(PAYLOAD).names == ["_vs", "_ve", *PAYLOAD.names]
    assert empty_events(PAYLOAD).num_rows == 0
    with pytest.raises(InvalidBatchError, match="'_vs' is reserved"):
        item_schema(pa.schema([("_vs", pa.int64())]))


def test_only_events_are_selected() -> None:
    batch = items(0, 20)
    events = only_events(batch)
    assert events.num_rows == 18
    assert only_events(items(0, 3)).num_rows == 3


def test_slices_of_items_share_memory() -> None:
    whole = Items(10, items(10, 20))
    assert whole.next_seq == 20
    part = whole.from_seq(13).head(4)
    assert (part.first_seq, part.next_seq) == (13, 17)
    assert part.batch.equals(items(13, 17))


def test_a_range_contains_its_start_but_not_its_end() -> None:
    seqs = SeqRange(3, 7)
    assert len(seqs) == 4
    assert 3 in seqs
    assert 7 not in seqs
    assert "3" not in seqs
