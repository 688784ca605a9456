"""The doctor names the cause of each prepared trouble, and finds nothing in healthy jobs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from jobmanager.cli.page.answers import timeline_of
from jobmanager.cli.page.doctor import Case, findings
from jobmanager.cli.page.metrics import exposition
from jobmanager.state import messages as own
from jobmanager.state.state_size import state_lines
from rvertex import messages as sent
from tests.jobmanager.cli.page.cases import NOW_US, S, delivery, host, log, status, vertex

HEALTHY = status()
SPILLED = vertex(
    "s01.0",
    memory_bytes=200 << 20,
    scratch_bytes=1 << 30,
    scratch_files=3,
    state_keys=40_000_000,
)


def taken(ago_s: int, name: str = "s01.0", *, size: int = 0, took_s: int = 0) -> tuple[int, Any]:
    """A checkpoint in the log. ``took_s``: time until it was durable; 0: unknown."""
    at_us = NOW_US - ago_s * S
    taken_us = at_us - took_s * S if took_s else 0
    fields = {"reads": (0,), "parts": (), "taken_us": taken_us, "asked": False}
    return at_us, sent.CheckpointTaken(name, 1, "c", (0,), (0,), 10, **fields, state_bytes=size)


def growing(*sizes_mib: int) -> list[tuple[int, Any]]:
    count = len(sizes_mib)
    return [taken(count - k, size=size << 20) for k, size in enumerate(sizes_mib)]


def sized(*sizes_mib: float, stage: str = "s01", every_s: int = 2_000) -> dict[str, Any]:
    """A job whose stage had these state sizes, one every 2,000 s."""
    ages_s = range((len(sizes_mib) - 1) * every_s, -1, -every_s)
    points = [[NOW_US - s * S, int(mib * 2**20)] for s, mib in zip(ages_s, sizes_mib, strict=True)]
    return status(state_sizes={stage: points})


def earlier(**fields: Any) -> dict[str, Any]:
    """The first of two statuses, 4 s before the second."""
    return status(written_us=NOW_US - 4 * S, **fields)


def working(user_s: float, *, busy_s: float = 4.0, epoch: int = 1) -> list[dict[str, Any]]:
    """A vertex that was busy for this time between the two statuses."""
    spent = {"busy_us": int((2 + busy_s) * S), "user_us": int(user_s * S), "epoch": epoch}
    return [vertex("s01.0", **spent, function="price (shop.py)")]


FAILED = sent.VertexFailed("s01.0", 1, "user", "ValueError: 7", "")
CHANGE = {"id": "1a", "kind": "deploy"}


def reason(health: str, kind: str) -> dict[str, Any]:
    words = {"reason": f"{kind} it is", "advice": "do it", "since_us": 5, "about": "x"}
    return {"health": health, "kind": kind, **words}


#: The reason of a window that is not complete yet.
WINDOW = "s01.0 waits for the end of a window"
OPEN_WINDOW: dict[str, Any] = {
    "reasons": [{**reason("ok", "time held"), "reason": WINDOW}],
    "held": [{"reason": WINDOW, "is_window": True}],
}


def busy(name: str) -> dict[str, Any]:
    return status(vertices=[vertex(name, events_in=6_000)])


TROUBLES: dict[str, tuple[Case, str, str]] = {
    "a health reason": (
        Case(HEALTHY, status(health="degraded", reasons=[reason("degraded", "state")]), NOW_US),
        "degraded",
        "state it is",
    ),
    "time that is held": (
        Case(HEALTHY, status(reasons=[reason("ok", "time held")]), NOW_US),
        "note",
        "time held it is",
    ),
    "a lag that grows": (
        Case(
            status(vertices=[vertex("s00.0", logs=[log(0, 2_000)])]),
            status(vertices=[vertex("s00.0", logs=[log(0, 9_000)])]),
            NOW_US,
        ),
        "waiting",
        "partition 0 of s00 falls behind: 2,000 rows were left, now 9,000",
    ),
    "a delivery that falls behind": (
        Case(
            status(deliveries=[delivery(lag_items=2_000)]),
            status(deliveries=[delivery(lag_items=8_000)]),
            NOW_US,
        ),
        "waiting",
        "the delivery postgres:t, partition 0 falls behind",
    ),
    "a hot key": (
        Case(
            HEALTHY,
            status(vertices=[vertex("s01.0", events_in=90_000), vertex("s01.1")]),
            NOW_US,
        ),
        "note",
        "s01.0 got 90,000 events and the other vertices of its stage 5,000 each",
    ),
    "a key with most rows": (
        Case(
            HEALTHY,
            status(
                vertices=[
                    vertex("s00.0", events_out=90_000, hot_key="user=7", hot_share=0.9),
                    vertex("s00.1", events_out=10_000, hot_key="user=8", hot_share=0.2),
                ]
            ),
            NOW_US,
        ),
        "note",
        "81% of the rows that s00 sends on have user=7",
    ),
    "checkpoints that stopped": (
        Case(
            status(vertices=[vertex("s01.0")]),
            busy("s01.0"),
            NOW_US,
            [taken(310), taken(305), taken(300)],
        ),
        "waiting",
        "s01.0 had its last checkpoint 300 s ago",
    ),
    "memory that runs out": (
        Case(HEALTHY, status(hosts=[host(free_bytes=200 << 20)]), NOW_US),
        "waiting",
        "host h0.0 on m has 200 MiB of memory left; its process uses 1,024 MiB",
    ),
    "output that nobody reads": (
        Case(HEALTHY, status(vertices=[vertex("s01.0", tail_bytes=60 << 20)]), NOW_US),
        "note",
        "s01.0 holds 60 MiB of output in memory",
    ),
    "state on scratch": (
        Case(HEALTHY, status(vertices=[SPILLED]), NOW_US),
        "note",
        "s01.0 has spilled state to scratch: state 1.2 GiB in 3 runs, 40M keys, of which 200 MiB",
    ),
    "poisoned events": (Case(HEALTHY, status(poisoned_events=3), NOW_US), "note", "3 events"),
    "a clock that is ahead": (
        Case(HEALTHY, status(written_us=NOW_US + 90 * S), NOW_US),
        "note",
        "the clock of m is 90 s ahead",
    ),
    "a job manager that is silent": (
        Case(HEALTHY, status(written_us=NOW_US - 30 * S), NOW_US),
        "waiting",
        "has not written its status for 30 s",
    ),
    "a source that ended": (
        Case(
            HEALTHY,
            status(
                vertices=[
                    vertex("s00.0", logs=[log(0, None, state="ended")]),
                    vertex("s01.0", logs=[log(0, 3)]),
                ]
            ),
            NOW_US,
        ),
        "note",
        "the input of s00 has ended while other inputs continue",
    ),
    "an idle partition": (
        Case(
            HEALTHY,
            status(vertices=[vertex("s00.0", logs=[log(0, 0, state="idle", lag_s=90), log(1, 3)])]),
            NOW_US,
        ),
        "note",
        "partition 0 of s00 has no new rows (idle); its newest row is 90 s old",
    ),
    "input that was gone": (
        Case(HEALTHY, status(vertices=[vertex("s00.0", logs=[log(0, 3, lost=12)])]), NOW_US),
        "note",
        "12 rows of partition 0 of s00 were gone before they were read",
    ),
    "slow user code": (
        Case(earlier(), status(vertices=working(user_s=3.6)), NOW_US),
        "note",
        "price (shop.py) takes 90 % of the time of the host of s01.0",
    ),
    "a step that lasts": (
        Case(HEALTHY, status(hosts=[{**host(), "busy": "vertex s01.0 did not return"}]), NOW_US),
        "note",
        "vertex s01.0 did not return",
    ),
    "a state that grows": (
        Case(HEALTHY, HEALTHY, NOW_US, growing(9, 10, 11, 19, 20, 21, 39, 40, 41)),
        "waiting",
        "the state of s01.0 grows: 10 MiB, then 40 MiB",
    ),
    "a state that grows slowly": (
        Case(HEALTHY, sized(*(1_000 + 4 * k for k in range(49))), NOW_US),
        "note",
        "MiB per hour: it has 1.16 GiB of 80 keys and doubles in 16",
    ),
    "a state that grows slowly, and shrinks a little each hour": (
        Case(HEALTHY, sized(*(100 + 2 * k + 30 * (k % 6) for k in range(60))), NOW_US),
        "note",
        "the state of s01 grows by 3.91 MiB per hour",
    ),
    "a slow store": (
        Case(HEALTHY, HEALTHY, NOW_US, [taken(90 - k, took_s=20) for k in range(6)]),
        "waiting",
        "checkpoints of s01.0 take 20 s until they are durable",
    ),
    "a disk that is nearly full": (
        Case(HEALTHY, HEALTHY, NOW_US, disks={"/jobs/j": (300 << 20, 100 << 30)}),
        "waiting",
        "the disk of /jobs/j has 300 MiB left",
    ),
    "a disk that is full, and a job that cannot write its status there": (
        Case(HEALTHY, status(written_us=NOW_US - 30 * S), NOW_US, disks={"/jobs/j": (0, 4 << 20)}),
        "waiting",
        "the disk of /jobs/j is full, so the job waits",
    ),
    "an output's disk that is full": (
        Case(HEALTHY, HEALTHY, NOW_US, disks={"/jobs/j": (9 << 30, 9 << 30), "/out": (0, 9 << 30)}),
        "waiting",
        "the disk of /out is full",
    ),
    "a lag that grows slowly, since it is large": (
        Case(
            status(vertices=[vertex("s00.0", logs=[log(0, 800_000, position=5_000)])]),
            status(vertices=[vertex("s00.0", logs=[log(0, 800_300, position=5_200)])]),
            NOW_US,
        ),
        "waiting",
        "partition 0 of s00 falls behind: 800,000 rows were left, now 800,300",
    ),
    "a producer whose clock is ahead": (
        Case(HEALTHY, status(vertices=[vertex("s00.0", logs=[log(0, 0, lag_s=-600.0)])]), NOW_US),
        "note",
        "the newest row of partition 0 of s00 is 600 s ahead of the clock",
    ),
    "a window that waits while no time passes": (
        Case(earlier(), status(**OPEN_WINDOW), NOW_US),
        "note",
        "s01.0 waits for the end of a window",
    ),
    "a deployment that is open": (
        Case(status(change=CHANGE), status(change=CHANGE), NOW_US),
        "waiting",
        "a deploy was requested, and the job has not reached a consistent cut for it yet",
    ),
    "a host without memory": (
        Case(
            HEALTHY,
            HEALTHY,
            NOW_US,
            [(NOW_US - 60 * S, sent.VertexFailed("s01.0", 1, "memory", "MemoryError", ""))],
        ),
        "note",
        "s01.0 failed (memory): MemoryError",
    ),
    "failures again and again": (
        Case(HEALTHY, HEALTHY, NOW_US, [(NOW_US - k * S, FAILED) for k in (600, 400, 200)]),
        "note",
        "s01.0 failed (user): ValueError: 7 (3 times in the last day)",
    ),
    "hosts of one place that are lost": (
        Case(
            HEALTHY,
            HEALTHY,
            NOW_US,
            [(NOW_US - k * S, own.HostLost(f"h0.{9 - k}", "killed")) for k in (4, 3)],
        ),
        "note",
        "host h0.6 was lost: killed (2 times in the last day)",
    ),
    "a vertex that failed at night": (
        Case(
            HEALTHY,
            HEALTHY,
            NOW_US,
            [(NOW_US - 3_600 * S, sent.VertexFailed("s01.0", 1, "user", "ValueError: 7", ""))],
        ),
        "note",
        "s01.0 failed (user): ValueError: 7",
    ),
    "a host that was lost at night": (
        Case(HEALTHY, HEALTHY, NOW_US, [(NOW_US - 60 * S, own.HostLost("h0.0", "killed"))]),
        "note",
        "host h0.0 was lost: killed",
    ),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_each_problem_is_reported_and_nothing_else(name: str) -> None:
    case, gravity, words = TROUBLES[name]
    (found,) = findings(case)
    assert (found.gravity, words in found.what) == (gravity, True), found


@pytest.mark.parametrize(
    "case",
    [
        Case(HEALTHY, HEALTHY, NOW_US),
        Case(HEALTHY, status(state="finished"), NOW_US + 10**6 * S),
        Case(status(vertices=[]), status(vertices=[], hosts=[], deliveries=[]), NOW_US),
        # a lag that shrinks, a small one, an unknown one
        Case(
            status(vertices=[vertex("s00.0", logs=[log(0, 9_000), log(1, 5), log(2, None)])]),
            status(vertices=[vertex("s00.0", logs=[log(0, 2_000), log(1, 900), log(2, 9_000)])]),
            NOW_US,
        ),
        # a large lag that is soon read, and one that neither grows nor lasts
        Case(
            status(vertices=[vertex("s00.0", logs=[log(0, 50_000, position=5_000)])]),
            status(vertices=[vertex("s00.0", logs=[log(0, 50_100, position=9_000)])]),
            NOW_US,
        ),
        # rows planned for a moment later, and a window that is not complete yet
        Case(HEALTHY, status(vertices=[vertex("s00.0", logs=[log(0, 0, lag_s=-30.0)])]), NOW_US),
        Case(
            earlier(vertices=[vertex("s00.0", logs=[log(0, 5, frontier_us=NOW_US - S)])]),
            status(**OPEN_WINDOW),
            NOW_US,
        ),
        # few events are not skewed, nor are many evenly distributed ones
        Case(
            HEALTHY,
            status(vertices=[vertex("a.0", events_in=9), vertex("a.1", events_in=0)]),
            NOW_US,
        ),
        Case(
            HEALTHY,
            status(vertices=[vertex(f"a.{k}", events_in=50_000 + k) for k in range(4)]),
            NOW_US,
        ),
        # a key that is hot in one of many vertices, one with few rows, an older status
        Case(
            HEALTHY,
            status(
                vertices=[
                    vertex("a.0", events_out=10_000, hot_key="user=7", hot_share=0.9),
                    *(vertex(f"a.{k}", events_out=10_000, hot_key="x=1") for k in range(1, 4)),
                    vertex("b.0", events_out=900, hot_key="user=7", hot_share=0.9),
                ]
            ),
            NOW_US,
        ),
        # checkpoints in time, or of a vertex that got nothing
        Case(status(vertices=[vertex("s01.0")]), busy("s01.0"), NOW_US, [taken(9), taken(5)]),
        Case(busy("s01.0"), busy("s01.0"), NOW_US, [taken(310), taken(300)]),
        # a failure of the day before yesterday
        Case(
            HEALTHY,
            HEALTHY,
            NOW_US,
            [(NOW_US - 200_000 * S, sent.VertexFailed("s01.0", 1, "user", "ValueError: 7", ""))],
        ),
        # only idle partitions, and some that have ended beside others
        Case(HEALTHY, status(vertices=[vertex("s00.0", logs=[log(0, 0, state="idle")])]), NOW_US),
        Case(
            HEALTHY,
            status(vertices=[vertex("s00.0", logs=[log(0, None, state="ended"), log(1, 3)])]),
            NOW_US,
        ),
        # user code in a host with spare time, and in a vertex that was restarted
        Case(earlier(), status(vertices=working(user_s=2.4, busy_s=2.5)), NOW_US),
        Case(earlier(), status(vertices=working(user_s=3.6, epoch=2)), NOW_US),
        # a state that grew and is now constant, a small one, one that shrinks again
        Case(HEALTHY, HEALTHY, NOW_US, growing(1, 20, 40, 40, 40, 41, 40, 41, 40)),
        Case(HEALTHY, HEALTHY, NOW_US, growing(0, 0, 1, 1, 2, 2, 3, 4, 5)),
        Case(HEALTHY, HEALTHY, NOW_US, growing(10, 40, 10, 40, 10, 40, 10, 40, 10)),
        # over hours: a state that approaches a limit, that shrinks again, that is new, small or
        # constant, or that grew until three hours ago
        Case(HEALTHY, sized(*(1_000 * (1 - 0.9**k) for k in range(49))), NOW_US),
        Case(HEALTHY, sized(*(100 + 40 * (k % 12) for k in range(60))), NOW_US),
        Case(HEALTHY, sized(*(100 + 40 * k for k in range(49)), every_s=1_800), NOW_US),
        Case(HEALTHY, sized(*(100 * (1 - 0.98**k) for k in range(60))), NOW_US),
        Case(HEALTHY, sized(*(150 - 50 * math.cos(k / 10) for k in range(60))), NOW_US),
        Case(HEALTHY, sized(*(10 + 2 * (k % 43) for k in range(60))), NOW_US),
        Case(HEALTHY, sized(*(k / 10 for k in range(49))), NOW_US),
        Case(HEALTHY, sized(*(1_000 + k / 100 for k in range(49))), NOW_US),
        Case(HEALTHY, sized(*(100 + 4 * min(k, 30) for k in range(49))), NOW_US),
        # checkpoints that become durable in time; a disk with room; a change under way
        Case(HEALTHY, HEALTHY, NOW_US, [taken(90 - k, took_s=2) for k in range(6)]),
        Case(HEALTHY, HEALTHY, NOW_US, disks={"/jobs/j": (30 << 30, 100 << 30)}),
        Case(HEALTHY, status(change=CHANGE), NOW_US),
        # hosts that ended as instructed
        Case(HEALTHY, HEALTHY, NOW_US, [(NOW_US, own.HostLost("h0.0", "stopped"))]),
        # hosts whose connection broke after the job had finished
        Case(
            HEALTHY,
            status(state="finished"),
            NOW_US,
            [
                (NOW_US - 1, sent.VertexFinished("s01.0", 1, (0,), (0,), (), sent.Counts())),
                (NOW_US, own.HostLost("h0.0", "its control link broke")),
            ],
        ),
        # the memory of a job that has ended
        Case(HEALTHY, status(state="finished", hosts=[host(free_bytes=1)]), NOW_US),
    ],
)
def test_a_healthy_job_has_no_findings(case: Case) -> None:
    assert findings(case) == []


def test_a_status_of_an_older_release_is_accepted() -> None:
    new = ["hot_key", "hot_share", "state_keys", "scratch_bytes", "scratch_files"]
    old, mixed = (vertex(f"a.{k}", events_out=50_000) for k in range(2))
    for key in new:
        del old[key]
    for vertices in ([old], [mixed, old]):
        case = Case(HEALTHY, status(vertices=vertices), NOW_US)
        assert findings(case) == []
        assert list(state_lines(case.status)) == []
        assert b'vertex="a.0"' in exposition([("j", case.status)])


def test_a_stopped_host_is_not_a_failure_in_the_timeline() -> None:
    notices: list[Any] = [(1, own.HostLost("h0.0", "killed")), (2, own.HostLost("h0.0", "stopped"))]
    assert [row["failure"] for row in timeline_of(notices)] == [True, False]


def test_the_most_severe_finding_comes_first() -> None:
    case = Case(
        HEALTHY,
        status(
            health="degraded",
            reasons=[reason("degraded", "state")],
            hosts=[host(1)],
            poisoned_events=3,
        ),
        NOW_US,
    )
    assert [found.gravity for found in findings(case)] == ["degraded", "waiting", "note"]
