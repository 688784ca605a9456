"""Arranges the batches of a segment into row groups, with few copies and without new digests.

A batch may have a digest. A row group that is at least half full ends before such a batch instead
of splitting it, so that its digest is the sum of the digests of its parts.

Invariants: (1) the parts of the groups are the rows of the batches, in order; (2) row groups do not
depend on how rows without a digest were divided into batches; (3) no group has more than
``rows_max`` rows, and all except the last have at least half of that. Pure: does no I/O.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.batch import Items
from rstream.items.dictionaries import Known, is_dictionary, join_batches
from rstream.items.digest import StreamDigest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Text is written as a dictionary if each value occurs at least this often on average.
REPEATS_MIN = 3


def row_groups(
    first_seq: int, batches: Sequence[pa.RecordBatch], digests: Sequence[bytes], rows_max: int
) -> Iterator[list[Items]]:
    """Yield the rows of ``batches`` in groups. ``digests``: of each batch, empty if unknown."""
    parts: list[Items] = []
    rows, seq = 0, first_seq
    for batch, digest in zip(batches, digests or [b""] * len(batches), strict=True):
        rest = Items(seq, batch, digest)
        if digest and rows * 2 >= rows_max and rows + batch.num_rows > rows_max:
            yield _few(parts)
            parts, rows = [], 0
        while rest.batch.num_rows:
            part = rest.head(rows_max - rows)
            parts.append(part)
            rows += part.batch.num_rows
            seq = part.next_seq
            rest = rest.from_seq(seq)
            if rows == rows_max:
                yield _few(parts)
                parts, rows = [], 0
    if parts:
        yield _few(parts)


def decoded_row_bytes(batches: Sequence[pa.RecordBatch]) -> tuple[int, int]:
    """Return the decoded bytes of a row's dictionary values: by mean and by greatest length."""
    sizes: dict[Known, tuple[int, int]] = {}
    total = rows = longest = 0
    schema, carried = batches[0].schema, _carried(batches[0].schema)
    for batch in batches:
        if not batch.schema.equals(schema):
            schema, carried = batch.schema, _carried(batch.schema)
        rows += batch.num_rows
        mean = most = 0
        for k in carried:
            known = Known(batch.column(k).dictionary)
            widths = sizes.get(known) or sizes.setdefault(known, _value_bytes(known.values))
            mean, most = mean + widths[0], most + widths[1]
        total += batch.num_rows * mean
        longest = max(longest, most)
    return total // rows, longest


def _value_bytes(values: pa.Array) -> tuple[int, int]:
    """Return the mean and the greatest number of bytes of a dictionary's values."""
    if len(values) == 0:
        return 0, 0
    mean = -(-int(values.nbytes) // len(values))
    kind = values.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not is_text and not pa.types.is_binary(kind) and not pa.types.is_large_binary(kind):
        return mean, mean
    longest = pc.max(pc.binary_length(values)).as_py()
    return mean, int(longest or 0)


def digest_of(parts: Sequence[Items]) -> StreamDigest:
    """Return the digest of a row group."""
    digest = StreamDigest()
    for part in parts:
        if part.digest:
            digest.add(StreamDigest.from_bytes(part.digest))
        else:
            digest.update(part.first_seq, part.batch)
    return digest


def have_one_dictionary(batches: Sequence[pa.RecordBatch]) -> bool:
    """Return whether each column has the same dictionary in all batches, and it saves space."""
    if len(batches) == 1:
        return True
    schema = batches[0].schema
    if not all(batch.schema.equals(schema) for batch in batches):
        return False
    return all(
        pays(batch.column(k))
        and Known(batch.column(k).dictionary) == Known(batches[0].column(k).dictionary)
        for k in _carried(schema)
        for batch in batches
    )


def _carried(schema: pa.Schema) -> list[int]:
    """Return the indices of the columns with dictionaries."""
    return [k for k, kind in enumerate(schema.types) if is_dictionary(kind)]


def pays(column: pa.DictionaryArray) -> bool:
    """Return whether the values of a dictionary occur ``REPEATS_MIN`` times or more on average."""
    return len(column.dictionary) * REPEATS_MIN <= len(column)


def _few(parts: list[Items]) -> list[Items]:
    """Join batches without a digest into fewer batches; the rows stay the same."""
    few: list[Items] = []
    for is_known, some in itertools.groupby(parts, key=lambda part: bool(part.digest)):
        if is_known:
            few += some
        else:
            rest = list(some)
            few.append(Items(rest[0].first_seq, join_batches([part.batch for part in rest])))
    return few
