"""One range of a stage's keys is split where its load halves, or joined with a neighbour.

Not covered: a measurement that differs from the load of the next minutes.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

import streamscope as ss
from jobmanager.cli.main import app
from jobmanager.driver.running.changes.scaling.ranges import Load, cut_of, merge_ranges, split_range
from jobmanager.driver.running.changes.scaling.widths import RescaleError
from jobmanager.driver.running.deploying import deploy, rescale, roll_back
from jobmanager.storage.root import JobRoot
from planner.physical.layout import key_shares, laid_out
from planner.physical.lower import lower
from planner.physical.slot_ranges import laid, plain
from rstream.items.hashing import SLOTS
from rvertex.checkpoint.ranges.slots import NotByKeyError
from tests.support.changed_jobs import ChangedJob, whole_answer
from tests.support.jobs import WAIT_S
from tests.testing.planted import Remembers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from planner.physical.plan import PhysicalPlan

#: Both stages get every row by key.
BY_X = (
    'rows.deduplicate("x", within="400ms").group_by("key").window(ss.tumbling("700ms"))'
    '.agg(m=ss.agg.quantile("x", 0.5))'
)
QUARTER, HALF = SLOTS // 4, SLOTS // 2
STAGE = "s02-agg"


def plan_of(tmp_path: Path, parallelism: int = 2) -> PhysicalPlan:
    rows = ss.Stream.from_items({"key": "int64", "x": "int64"}, [ss.event(1, key=1, x=1)])
    keyed = rows.group_by("key").window(ss.tumbling("1s")).agg(m=ss.agg.quantile("x", 0.5))
    return lower(keyed.to_parquet(), root=str(tmp_path), parallelism=parallelism)


def status_of(*slots: Sequence[int], rows: Sequence[int] = (), keys: str = "key") -> dict[str, Any]:
    """The vertices of the first stage, and the slots of the rows that they sent."""
    counts = rows or [len(sent) for sent in slots]
    return {
        "vertices": [
            {"stage": "s01-items", "events_out": count, "sent_slots": [[[keys], list(sent)]]}
            for sent, count in zip(slots, counts, strict=True)
        ]
    }


def test_the_range_with_the_most_rows_is_split_at_the_slot_that_halves_them(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    sent = [1, HALF + 1, HALF + 5, HALF + 9, HALF + QUARTER]
    found = split_range(plan, status_of(sent))
    assert found.bounds == {STAGE: (HALF, HALF + 9)}
    assert found.what == f"{STAGE}.1 gets 80% of the rows of {STAGE}; split into 40% and 40%"
    assert [round(share, 3) for _, _, share in found.ranges] == [0.2, 0.4, 0.4]
    heavy_writer = status_of([1, 2, 3, 4], [HALF + 1] * 3, rows=[900, 30])
    assert split_range(plan, heavy_writer).bounds == {STAGE: (3, HALF)}
    in_the_middle = {STAGE: (HALF, HALF + QUARTER)}
    assert split_range(plan, status_of([1, 2]), "s02.1").bounds == in_the_middle
    unmeasured = split_range(plan, {}, "s02.1")
    assert unmeasured.bounds == in_the_middle
    assert "no load of s02-agg is measured" in unmeasured.what
    assert [row["share"] for row in unmeasured.to_json()["ranges"]] == [None, None, None]


def test_shares_of_keys_are_known_unless_all_are_equal(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    assert key_shares(plan) == {}
    one = laid_out(plan, {STAGE: laid(2, [0], [])})
    assert key_shares(one) == {STAGE: {f"{STAGE}.0": 1.0, f"{STAGE}.1": 0.0}}
    split = laid_out(plan, {STAGE: laid(3, [0, 1, 2], [HALF, HALF + QUARTER])})
    assert key_shares(split)[STAGE] == {f"{STAGE}.0": 0.5, f"{STAGE}.1": 0.25, f"{STAGE}.2": 0.25}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--split-hot", "--split", "s02"], "--split-hot chooses the range, and --split s02 too"),
        (["--merge-cold", "--merge", "s02"], "--merge-cold chooses the range, and --merge s02"),
    ],
)
def test_only_one_option_may_choose_the_range(options: list[str], message: str) -> None:
    """``--split-hot`` with ``--split s02`` is an error; before, the stage was ignored."""
    found = CliRunner().invoke(app, ["rescale", "ROOT", *options])
    assert (found.exit_code, message in found.output.replace("\n", " ")) == (2, True), found.output


def test_one_key_cannot_be_split(tmp_path: Path) -> None:
    with pytest.raises(RescaleError, match=r"s02-agg\.1 cannot be split: one key has 100% of its"):
        split_range(plan_of(tmp_path), status_of([HALF + 7] * 64))
    with pytest.raises(RescaleError, match="one key has 95% of its rows, and a key has one"):
        split_range(plan_of(tmp_path), status_of([HALF + 7] * 95 + [HALF + 8] * 5))
    split = split_range(plan_of(tmp_path), status_of([HALF + 7] * 80 + [HALF + 8] * 20))
    assert split.bounds == {STAGE: (HALF, HALF + 8)}


def test_the_adjacent_ranges_with_the_fewest_rows_are_joined(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, 4)
    sent = [1] * 9 + [QUARTER] * 3 + [HALF] * 2 + [HALF + QUARTER] * 8
    found = merge_ranges(plan, status_of(sent))
    assert found.bounds == {STAGE: (QUARTER, HALF + QUARTER)}
    assert found.what == f"{STAGE}.1 and {STAGE}.2 get 23% of the rows of {STAGE}; joined"
    assert merge_ranges(plan, status_of(sent), "s02.3").bounds == {STAGE: (QUARTER, HALF)}
    assert merge_ranges(plan, {}, "s02.0").bounds == {STAGE: (HALF, HALF + QUARTER)}
    with pytest.raises(RescaleError, match="no stage has two ranges"):
        merge_ranges(laid_out(plan, {STAGE: plain(1)}), status_of(sent))


@pytest.mark.parametrize("choose", [split_range, merge_ranges])
def test_an_unknown_load_is_an_error(choose: Any, tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    with pytest.raises(RescaleError, match="the load of s02-agg is not measured"):
        choose(plan, status_of([1, 2], keys="x"))
    with pytest.raises(RescaleError, match="the load of s02-agg is not measured"):
        choose(plan, {}, "s02")
    with pytest.raises(RescaleError, match="no stage 's09'"):
        choose(plan, {}, "s09")
    with pytest.raises(RescaleError, match=r"s02\.7"):
        choose(plan, {}, "s02.7")
    with pytest.raises(NotByKeyError, match="its rows do not come to it by key"):
        choose(plan, {}, "s01")


def test_the_hottest_range_that_can_be_split_is_chosen(tmp_path: Path) -> None:
    """The state of the transform, which gets most rows, cannot be divided."""
    rows = ss.Stream.from_items({"user": "int64", "n": "int64"}, [ss.event(1, user=1, n=1)])
    made = rows.group_by("user").transform(Remembers(), {"user": "int64", "made": "int64"})
    plan = lower(made.to_parquet(), root=str(tmp_path), parallelism=2)
    with pytest.raises(NotByKeyError, match="the state of a transform has no known keys"):
        split_range(plan, status_of([1, 2], keys="user"))
    keyed = made.group_by("made").window(ss.tumbling("1s")).agg(m=ss.agg.quantile("user", 0.5))
    plan = lower(keyed.to_parquet(), root=str(tmp_path), parallelism=2)
    status = status_of([1, 2, 3, 4], keys="user")
    (transform,) = {stage.name for stage in plan.stages[1:-1]}
    sent = {"stage": transform, "events_out": 2, "sent_slots": [[["made"], [1, 2]]]}
    status["vertices"].append(sent)
    assert split_range(plan, status).bounds == {plan.stages[-1].name: (2, HALF)}


@pytest.mark.parametrize("seed", range(30))
def test_random_layouts_cover_all_slots_and_no_part_is_larger_than_before(
    seed: int, tmp_path: Path
) -> None:
    draw = random.Random(seed)
    bounds = sorted(draw.sample(range(1, SLOTS), draw.randint(1, 6)))
    layout = laid(len(bounds) + 1, range(len(bounds) + 1), bounds)
    plan = laid_out(plan_of(tmp_path), {STAGE: layout})
    near = draw.randrange(SLOTS)
    spread = draw.choice([3, 10**6, 10**9])
    sent = sorted((near + draw.randrange(spread)) % SLOTS for _ in range(64))
    whole = merge_ranges(plan, status_of(sent))
    (joined,) = whole.bounds.values()
    assert set(joined) < set(bounds)
    assert len(joined) == len(bounds) - 1
    before = Load(np.array(sent), np.ones(64))
    most = max(before.share(lo, hi) for lo, hi in layout.ranges)
    split = split_range(plan, status_of(sent))
    assert sum(share for _, _, share in split.ranges) == pytest.approx(1)
    (cut,) = set(split.bounds[STAGE]) - set(bounds)
    (k,) = [k for k, (lo, hi) in enumerate(layout.ranges) if lo < cut < hi]
    parts = [share or 0.0 for _, _, share in split.ranges[k : k + 2]]
    assert sum(parts) == pytest.approx(most)
    assert max(parts) < most


def test_no_other_split_is_better() -> None:
    for seed in range(50):
        draw = random.Random(seed)
        slots = np.sort([draw.randrange(10, 20) for _ in range(draw.randint(5, 40))])
        load = Load(slots, np.array([draw.choice([1.0, 5.0]) for _ in slots]))
        best = min(max(load.share(10, at), load.share(at, 20)) for at in range(11, 20))
        try:
            at = cut_of(load, 10, 20, "a.0")
        except RescaleError:
            assert best > 0.89
            continue
        assert max(load.share(10, at), load.share(at, 20)) == pytest.approx(best)


@pytest.mark.slow
def test_ranges_are_split_and_joined_while_the_job_runs(tmp_path: Path) -> None:
    """A deployment keeps uneven ranges; an even rescale ends them, and a rollback restores them."""
    changed = ChangedJob(tmp_path)
    path = changed.query("first", BY_X)
    changed.append(2)
    changed.run(path)
    changed.has_read_all()
    before = JobRoot(changed.root).read_plan()
    shown = json.loads(said_by(changed.root, "--split-hot", "--dry-run", "--json"))["outcome"]
    assert JobRoot(changed.root).read_plan() == before
    said = said_by(changed.root, "--split-hot")
    assert said.startswith(shown["what"])
    assert "range 2   slots" in said
    for split, merge in (("s03.1", None), (None, "s02"), ("s02.1", None)):
        changed.has_read_all()
        rescale(changed.root, split=split, merge=merge, wait_s=WAIT_S)
        changed.append()
    plan = JobRoot(changed.root).read_plan()
    assert plan is not None
    uneven = dict(plan.layouts)
    assert len(uneven) == 2
    assert all(layout.starts for layout in uneven.values())
    changed.has_read_all()
    deploy(path, changed.root, yes=True, wait_s=WAIT_S)
    assert dict(JobRoot(changed.root).read_plan().layouts) == uneven  # type: ignore[union-attr]
    rescale(changed.root, parallelism=3, wait_s=WAIT_S)
    roll_back(changed.root, wait_s=WAIT_S)
    assert dict(JobRoot(changed.root).read_plan().layouts) == uneven  # type: ignore[union-attr]
    changed.append()
    changed.has_read_all()
    assert changed.finish() == whole_answer(changed, BY_X)


def said_by(*arguments: str) -> str:
    """The output of ``jobmanager rescale``."""
    found = CliRunner().invoke(app, ["rescale", *arguments])
    assert found.exit_code == 0, (found.output, found.exception)
    return found.stdout
