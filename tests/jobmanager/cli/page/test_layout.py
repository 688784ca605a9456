"""Each stage is drawn to the right of its inputs, and no two stages overlap."""

from __future__ import annotations

import random
from typing import Any

from jobmanager.cli.page.layout import laid_out


def stage(name: str, *after: str) -> dict[str, Any]:
    return {"stage": name, "inputs": [{"stage": other} for other in after]}


def test_two_inputs_of_a_join_are_placed_above_each_other() -> None:
    found = laid_out([stage("a"), stage("b"), stage("join", "a", "b"), stage("end", "join")])
    places = {row["stage"]: (row["column"], row["row"]) for row in found}
    assert places == {"a": (0, 0), "b": (0, 1), "join": (1, 0), "end": (2, 0)}


def test_random_plans_of_200_stages() -> None:
    draw = random.Random(7)
    names = [f"s{i:03}" for i in range(200)]
    stages = [
        stage(name, *draw.sample(names[:i], min(i, draw.randrange(3))))
        for i, name in enumerate(names)
    ]
    found = {row["stage"]: row for row in laid_out(stages)}
    assert len({(row["column"], row["row"]) for row in found.values()}) == 200
    for row in found.values():
        assert all(found[other]["column"] < row["column"] for other in row["after"])


def test_an_empty_plan_has_an_empty_layout() -> None:
    assert laid_out([]) == []
