"""The segment index against a brute-force search over the same ranges."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rstream import SeqRange
from rstream.store.segment_names import SegmentIndex, parse_segment_name, segment_name

ranges = st.builds(
    lambda lo, length: SeqRange(lo, lo + length), st.integers(0, 40), st.integers(1, 15)
)


def test_a_segment_name_is_parsed_to_its_range() -> None:
    name = segment_name(SeqRange(7, 12))
    assert name == "00000000000000000007-00000000000000000012.parquet"
    assert parse_segment_name(name) == SeqRange(7, 12)


@pytest.mark.parametrize(
    "name",
    [
        "7-12.parquet",
        "00000000000000000012-00000000000000000007.parquet",
        "00000000000000000007-00000000000000000007.parquet",
        "00000000000000000007-00000000000000000012.parquet.1.tmp",
        "sub/00000000000000000007-00000000000000000012.parquet",
        "_low_water_mark",
    ],
)
def test_other_names_are_not_segments(name: str) -> None:
    assert parse_segment_name(name) is None


@given(st.lists(ranges, max_size=12), st.data())
def test_the_index_tolerates_any_overlap(segments: list[SeqRange], data: st.DataObject) -> None:
    index = SegmentIndex()
    for seqs in segments:
        index.add(seqs)
        index.check()
    assert SegmentIndex(segments).segments() == index.segments() == sorted(set(segments))
    covered = {seq for s in segments for seq in range(s.lo, s.hi)}
    for seq in range(60):
        found = index.lookup(seq)
        assert (found is not None) == (seq in covered)
        if found is not None:
            assert found.hi == max(s.hi for s in segments if seq in s)
        end = seq
        while end in covered:
            end += 1
        assert index.contiguous_end(seq) == end
    assert index.first_seq == (min(covered) if covered else None)
    missing = {seq for h in index.holes() for seq in range(h.lo, h.hi)}
    assert missing == (set(range(min(covered), max(covered))) - covered if covered else set())
    mark = data.draw(st.integers(0, 60))
    doomed = index.wholly_below(mark)
    assert sorted(doomed) == sorted(s for s in set(segments) if s.hi <= mark)
    for seqs in doomed:
        index.remove(seqs)
        index.check()
        assert index.holes() == [h for h in index.holes() if h.lo in missing]
    assert all(index.lookup(seq) is not None for seq in covered if seq >= mark)
