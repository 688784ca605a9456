"""Finds, for many messages at once and before decoding, which bytes are records of a schema.

Not covered: malformed records that the check and fastavro both accept.
"""

from __future__ import annotations

import json
import random
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rvertex.sources.logs.decode import avro_blocks
from rvertex.sources.logs.decode.avro import NO_RECORD, AvroDecoder
from rvertex.sources.logs.decode.avro_blocks import (
    ELEMENTS_WITHOUT_BYTES_MAX,
    LEVELS_MAX,
    malformed,
)
from rvertex.sources.logs.decode.avro_schema import AvroTypes, arrow_columns
from tests.rvertex.sources.logs.decode.test_avro_types import (
    POINT,
    SHAPES,
    TYPES,
    body_of,
    fixed,
    of_fields,
    record,
    written,
)

if TYPE_CHECKING:
    from types import FrameType

pytest.importorskip("fastavro", reason="Avro is an extra")
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "s", "type": ["null", "string"]},
        {"name": "k", "type": "long"},
        {"name": "l", "type": {"type": "array", "items": "double"}},
    ],
}
GOOD = body_of(SCHEMA, {"s": "abc", "k": 5, "l": [1.5]})
#: Bytes that are not a record: cut, too long, an unknown branch, negative and huge lengths.
WRONG = {
    "empty": b"",
    "cut": GOOD[:-3],
    "long": GOOD + b"\x00",
    "numbers without an end": b"\xff" * 11,
    "branch": b"\x08" + GOOD[1:],
    "negative branch": b"\x01" + GOOD[1:],
    "negative length": b"\x02\x01" + GOOD[2:],
    "huge length": b"\x02" + b"\xfe" + b"\xff" * 7 + b"\x7f" + GOOD[2:],
    "huge count": b"\x00\x0a" + b"\xfe" + b"\xff" * 7 + b"\x7f",
    "JSON": b'{"a":1}',
}


@pytest.mark.parametrize("shape", SHAPES)
def test_valid_records_of_all_types_are_accepted_and_truncated_ones_rejected(shape: str) -> None:
    make, spread = SHAPES[shape]
    for name, (kind, values) in TYPES.items():
        schema = record(make(kind))
        bodies = written(schema, spread(values))
        assert not malformed(bodies, schema).any(), name
        cut = [body[:k] for body in bodies for k in range(len(body))]
        more = [body + b"\x00" for body in bodies]
        assert malformed(cut + more, schema).all(), name


def test_a_named_type_is_known_even_if_its_first_use_has_no_record() -> None:
    fields = [("p", ["null", {**POINT, "namespace": "n"}]), ("q", "n.P"), ("r", ["null", "n.P"])]
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": kind} for name, kind in fields],
    }
    body = body_of(schema, {"p": None, "q": {"x": 1}, "r": {"x": 2}})
    assert malformed([body, body[:-1], body], schema).tolist() == [False, True, False]


def test_malformed_records_are_bad_without_output_of_the_decoder(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert AvroTypes(SCHEMA).are_in_blocks
    bodies = [body for wrong in WRONG.values() for body in (GOOD, wrong)]
    found = AvroDecoder(arrow_columns(SCHEMA), SCHEMA).decode(bodies)
    assert found.rows.to_pylist() == [{"s": "abc", "k": 5, "l": [1.5]}] * len(WRONG)
    assert {k: str(bad) for k, bad in found.bad.items()} == {
        2 * k + 1: NO_RECORD for k in range(len(WRONG))
    }
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("shape", ["alone", "null first", "list of nullable", "map"])
def test_random_bytes_are_decoded_or_bad_without_output(
    shape: str, capfd: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(json.dumps(shape))
    make, spread = SHAPES[shape]
    for name in ("long", "double", "string", "boolean", "enum", "record", "float"):
        kind, values = TYPES[name]
        schema = record(make(kind))
        bodies = written(schema, spread(values)) * 4
        for k, body in enumerate(bodies):
            changed = bytearray(body)
            changed[rng.randrange(len(body))] = rng.randrange(256)
            bodies[k] = bytes(changed)
        together = AvroDecoder(arrow_columns(schema), schema).decode(bodies)
        alone = [AvroDecoder(arrow_columns(schema), schema).decode([body]) for body in bodies]
        assert list(together.bad) == [k for k, found in enumerate(alone) if found.bad]
        rows = [row for found in alone for row in found.rows.to_pylist()]
        assert repr(together.rows.to_pylist()) == repr(rows)
    assert capfd.readouterr() == ("", "")


def numbers(*found: int) -> bytes:
    """Numbers as Avro encodes them."""
    schema = of_fields(("k", "long"))
    return b"".join(body_of(schema, {"k": number}) for number in found)


MOST = ELEMENTS_WITHOUT_BYTES_MAX
NULLS = {"type": "array", "items": "null"}
#: Arrays whose elements have no bytes: blocks with a count, and after a negative one their size.
CLAIMS = {
    "the most": (numbers(MOST, 0), True),
    "the most in two blocks": (numbers(MOST - 2, -2, 0, 0), True),
    "one too many": (numbers(MOST + 1, 0), False),
    "one too many in two blocks": (numbers(MOST - 2, -3, 0, 0), False),
    "2^40": (numbers(2**40, 0), False),
    "-2^40": (numbers(-(2**40), 0, 0), False),
    "-2^63": (numbers(-(2**63), 0, 0), False),
}


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize(
    "items",
    [
        "null",
        fixed("F", 0),
        {"type": "record", "name": "N", "fields": [{"name": "n", "type": "null"}]},
    ],
)
@pytest.mark.parametrize("is_read", [True, False])
def test_few_bytes_cannot_declare_many_elements(
    items: Any, claim: str, is_read: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """They kept the reader busy forever."""
    blocks, is_good = CLAIMS[claim]
    schema = of_fields(("l", {"type": "array", "items": items}), ("k", "long"))
    columns = arrow_columns(schema if is_read else of_fields(("k", "long")))
    bodies = [blocks + numbers(5), numbers(0, 6)]
    assert malformed(bodies, schema).tolist() == [not is_good, False]
    found = AvroDecoder(columns, schema).decode(bodies)
    assert found.rows.column("k").to_pylist() == ([5, 6] if is_good else [6])
    assert {k: str(bad) for k, bad in found.bad.items()} == ({} if is_good else {0: NO_RECORD})
    if is_good and is_read:
        assert [len(items) for items in found.rows.column("l")] == [MOST, 0]
    assert capfd.readouterr() == ("", "")


def test_elements_of_all_arrays_of_a_message_are_counted_together() -> None:
    schema = of_fields(("l", {"type": "array", "items": NULLS}))
    many = numbers(2, MOST, 0, 1, 0, 0)
    most = numbers(2, MOST - 1, 0, 1, 0, 0)
    assert malformed([many, most, most], schema).tolist() == [True, False, False]
    found = AvroDecoder(arrow_columns(schema), schema).decode([many, most, most])
    assert list(found.bad) == [0]
    assert found.rows.num_rows == 2


def test_a_recursive_record_that_is_not_read_may_have_arrays_of_null() -> None:
    fields = [{"name": "next", "type": ["null", "T"]}, {"name": "l", "type": NULLS}]
    schema = of_fields(("t", {"type": "record", "name": "T", "fields": fields}), ("k", "long"))
    columns = arrow_columns(of_fields(("k", "long")))
    good, wrong = numbers(1, 0, 2, 0, 3, 0, 5), numbers(1, 0, 2, 0, 2**40, 0, 5)
    found = AvroDecoder(columns, schema).decode([good, wrong, good])
    assert found.rows.column("k").to_pylist() == [5, 5]
    assert list(found.bad) == [1]


@pytest.mark.parametrize("way", ["union", "array", "map", "arrays"])
def test_a_record_nested_too_deeply_does_not_crash_the_process(way: str) -> None:
    kinds = {
        "union": (["null", "T"], numbers(1), numbers(0)),
        "array": ({"type": "array", "items": "T"}, numbers(1), numbers(0)),
        "map": ({"type": "map", "values": "T"}, numbers(1, 0), numbers(0)),
    }
    nested: Any = "T"
    for _ in range(9):
        nested = {"type": "array", "items": nested}
    kinds["arrays"] = nested, numbers(*[1] * 9), numbers(0)
    kind, more, end = kinds[way]
    node = {"type": "record", "name": "T", "fields": [{"name": "next", "type": kind}]}
    schema = of_fields(("t", node), ("k", "long"))

    def body(levels: int) -> bytes:
        """Nested records, including the message itself."""
        ends = 1 if way == "union" else 1 + (levels - 2) * (9 if way == "arrays" else 1)
        return more * (levels - 2) + end * ends + numbers(5)

    most = 20 if way == "arrays" else LEVELS_MAX
    bodies = [body(levels) for levels in (2, most, LEVELS_MAX + 1, 10_000)]
    found = AvroDecoder(arrow_columns(of_fields(("k", "long"))), schema).decode(bodies)
    assert found.rows.column("k").to_pylist() == [5, 5]
    assert list(found.bad) == [2, 3]


@pytest.mark.parametrize("shape", ["list", "list of nullable", "map"])
def test_elements_are_skipped_alike_in_blocks_and_row_by_row(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(shape)
    make, spread = SHAPES[shape]
    for name, (kind, values) in TYPES.items():
        schema = record(make(kind))
        bodies = written(schema, spread(values)) * 20
        for k in range(2, len(bodies)):
            changed = bytearray(bodies[k])
            for _ in range(rng.choice([1, 1, 3])):
                at = rng.randrange(len(changed))
                changed[at] = rng.choice([0, 1, 2, 128, 255, rng.randrange(256)])
            bodies[k] = bytes(changed)
        verdicts = []
        for most in (0, 10**9):
            monkeypatch.setattr(avro_blocks, "ONE_BY_ONE_MAX", most)
            verdicts.append(malformed(bodies, schema).tolist())
        verdicts.append([bool(malformed([body], schema)[0]) for body in bodies])
        assert verdicts[0] == verdicts[1] == verdicts[2], name
        assert not any(verdicts[0][:2]), name


@pytest.mark.parametrize("items", ["long", "double", "string", ["null", "int"], POINT])
def test_a_message_with_very_many_elements_needs_few_numpy_calls(items: Any) -> None:
    schema = of_fields(("l", {"type": "array", "items": items}))
    value = {"string": "ab", "double": 0.5}.get(str(items), 5)
    body = body_of(schema, {"l": [{"x": 5} if items is POINT else value] * 20_000})
    steps = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal steps
        steps += event == "call" and frame.f_code.co_name == "_number"

    sys.setprofile(count)
    try:
        assert malformed([body, body[:-1], body], schema).tolist() == [False, True, False]
    finally:
        sys.setprofile(None)
    assert steps <= 10


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("most", [0, 10**9])
def test_a_varint_in_an_array_has_ten_bytes_at_most(
    before: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(avro_blocks, "ONE_BY_ONE_MAX", most)
    for items in ("long", ["null", "long"]):
        schema = of_fields(("l", {"type": "array", "items": items}))
        branch = b"\x02" * (items != "long")
        bodies = [
            b"".join([numbers(before + 1), (branch + b"\x02") * before, branch, long, b"\x00"])
            for long in (b"\xff" * 9 + b"\x01", b"\xff" * 10 + b"\x01", b"\x80" * 10 + b"\x00")
        ]
        assert malformed(bodies, schema).tolist() == [False, True, True]
