"""State and timers per key as Flink, Spark and Bytewax explain them."""

from __future__ import annotations

from typing import Any

from planner import KeyedContext, KeyedProcess, Timer
from tests.support.engines.case import Case, points
from tests.support.engines.windows import TAPS

SEEN = points({"id": "string"}, (0, "p"), (4, "p"), (10, "p"), (12, "p"), (12, None), (13, None))


class First(KeyedProcess):
    """Emits the first row of its key."""

    output = {"x": "int64"}  # noqa: RUF012
    seen: bool = False

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        if not self.seen:
            self.seen = True
            ctx.emit(event.x)


class FirstInTen(KeyedProcess):
    """Emits a row unless another of its key was emitted less than ten seconds before."""

    output = {}  # noqa: RUF012
    seen: bool = False

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        if not self.seen:
            self.seen = True
            ctx.set_timer("10s")
            ctx.emit()

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        self.seen = False


class Quiet(KeyedProcess):
    """Emits the count of rows once its key was quiet for six seconds."""

    output = {"n": "int64"}  # noqa: RUF012
    n: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n += 1
        ctx.set_timer("6s")

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit(self.n)
        self.n = 0


class Total(KeyedProcess):
    """The sum so far, at each row."""

    output = {"total": "int64"}  # noqa: RUF012
    total: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.total += event.x
        ctx.emit(self.total)


class SmallThenLarge(KeyedProcess):
    """Emits a large row that directly follows a small one of its key."""

    output = {"x": "int64"}  # noqa: RUF012
    small: bool = False

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        if self.small and event.x > 6:
            ctx.emit(event.x)
        self.small = event.x < 2


CASES: dict[str, Case] = {
    "keep the first": Case(
        "Flink",
        "Deduplication that keeps the first row of each key.",
        (TAPS.group_by("k").process(First),),
        [(2, None, "a", 5), (9, None, "b", 4)],
    ),
    "drop duplicates for a while": Case(
        "Spark",
        "Duplicates within a time are dropped, and null is a key like any other.",
        (SEEN.group_by("id").process(FirstInTen),),
        [(0, None, "p"), (10, None, "p"), (12, None, None)],
        differs="Spark forgets a key some time after, when its watermark passes; here at the time "
        "of the timer, before the row of that very time.",
    ),
    "count with a timeout": Case(
        "Flink",
        "A count leaves when its key was quiet for a while.",
        (TAPS.group_by("k").process(Quiet),),
        [(16, None, "a", 3), (20, None, "b", 2), (27, None, "a", 1)],
        differs="Flink keeps every timer that was set; here one of the same name is moved.",
    ),
    "running total": Case(
        "Bytewax",
        "A stateful map gives a value for each row, from the state of its key.",
        (TAPS.group_by("k").process(Total),),
        [
            (2, None, "a", 5), (6, None, "a", 6), (9, None, "b", 4), (10, None, "a", 13),
            (14, None, "b", 12), (21, None, "a", 16),
        ],
    ),
    "a large one after a small one": Case(
        "Flink",
        "A fraud detector remembers that the row before was small.",
        (TAPS.group_by("k").process(SmallThenLarge),),
        [(10, None, "a", 7)],
    ),
}  # fmt: skip
