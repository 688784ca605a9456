"""The names of the ranks of ``top_rows``. Their values are tested in tests/planner."""

from __future__ import annotations

from rvertex.aggregates.ranked.top_rows import TopOrder


def test_rank_columns_avoid_the_names_of_row_columns() -> None:
    order = TopOrder("row_number", 3, ((False, False),), copies=True)
    assert order.place_names(["x"]) == ("place", "position", "copy")
    assert order.place_names(["place", "place_", "copy"]) == ("place__", "position", "copy_")
    assert TopOrder("rank", 3, ((True, True),)).place_names(["position"]) == ("place", "position_")
