"""Queries with a planted bug of user code, and healthy ones that look like them.

The bugs are hidden from the bytecode check (:mod:`planner.user_code`), which reports plain ones
when the query is built.
"""

from __future__ import annotations

import datetime
import functools
import importlib
import math
from collections import deque
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

import streamscope as ss
from streamscope.testing import rows

if TYPE_CHECKING:
    from collections.abc import Callable

Query = "Callable[[ss.Stream], ss.Stream]"
CLICKS = rows("""
    | time | user: string | page: string | x: float64   | n: int64 |
    |------|--------------|--------------|--------------|----------|
    | 1s   | ann          | home         | 0.1          | 3        |
    | 1s   | bob          | shop         | 41.1         | 1        |
    | 1s   | ann          | cart         | 0.2          | 4        |
    | 1s   | ann          | pay          | 0.3          | 1        |
    | 1s   | ann          | shop         | 0.7          | 5        |
    | 2s   | bob          | home         | 0.7          | 9        |
    | 2s   | bob          | home         | 1000.1       | 8        |
    | 2s   | bob          | home         | 0.05         | 7        |
    | 4s   | cat          | home         | 0.2          | 2        |
    | 7s   | bob          | cart         | 17.3         | 6        |
    | 11s  | ann          | home         | 0.1          | 5        |
    | 11s  | ann          | news         | 0.6          | 3        |
    | 12s  | cat          | shop         | 3.5          | 5        |
    | 12s  | cat          | pay          | 0.25         | 8        |
    | 19s  | dan          | home         | 0.5          | 9        |
""")
COUNTS = {"count": 0}
LOG: list[int] = []
SEEN: set[str] = set()
FIRST: dict[str, int] = {}
_PAGES = ("home", "shop", "cart", "pay", "news", "help", "jobs", "team")


def hidden(module: str, name: str) -> Any:
    """An attribute of a module, accessed in a way that bytecode does not show."""
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


def per_user(process: type[ss.KeyedProcess]) -> Callable[[ss.Stream], ss.Stream]:
    return lambda clicks: clicks.group_by("user").process(process)


def per_row(
    function: Callable[[pa.RecordBatch], Any], kind: str = "int64"
) -> Callable[[ss.Stream], ss.Stream]:
    schema = {"user": "string", "made": kind}
    return lambda clicks: clicks.apply(function, schema, deterministic=True)


def made(batch: pa.RecordBatch, values: Any) -> dict[str, Any]:
    return {"user": batch.column("user"), "made": values}


# ---- order


class FirstPage(ss.KeyedProcess):
    output = {"page": "string"}  # noqa: RUF012
    page: str | None

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        if self.page is None:
            self.page = event.page
            ctx.emit(event.page)


class Paths(ss.KeyedProcess):
    output = {"path": "string"}  # noqa: RUF012
    pages: list[str]

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        self.pages = [*self.pages, event.page][-3:]
        ctx.set_timer("10s")

    def on_timer(self, timer: ss.Timer, ctx: ss.KeyedContext) -> None:
        ctx.emit(">".join(self.pages))
        self.pages = []


class Differences(ss.KeyedProcess):
    output = {"by": "int64"}  # noqa: RUF012
    last: int

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        ctx.emit(event.n - self.last)
        self.last = event.n


class FloatSum(ss.KeyedProcess):
    output = {"total": "float64"}  # noqa: RUF012
    total: float

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        self.total += event.x
        ctx.set_timer("5s")

    def on_timer(self, timer: ss.Timer, ctx: ss.KeyedContext) -> None:
        ctx.emit(self.total)
        self.total = 0.0


class FloatMean:
    """An aggregate that adds floats in the order of arrival."""

    type = pa.float64()
    state_type = pa.list_(pa.float64())

    def init(self) -> list[float]:
        return [0.0, 0.0]

    def add(self, state: list[float], values: pa.Array) -> list[float]:
        for value in values.to_pylist():
            state = [state[0] + value, state[1] + 1]
        return state

    def merge(self, state: list[float], other: list[float]) -> list[float]:
        return [state[0] + other[0], state[1] + other[1]]

    def result(self, state: list[float]) -> float:
        return state[0] / state[1]


# ---- what outlives a call


def numbered(batch: pa.RecordBatch) -> Any:
    values = []
    for _ in range(batch.num_rows):
        COUNTS["count"] += 1
        values.append(COUNTS["count"])
    return made(batch, values)


class Logged(ss.KeyedProcess):
    output = {"rows": "int64"}  # noqa: RUF012

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        LOG.append(event.n)
        ctx.emit(len(LOG))


class Cached(ss.KeyedProcess):
    output = {"is_new": "bool"}  # noqa: RUF012

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        ctx.emit(event.page not in SEEN)
        SEEN.add(event.page)


class FirstOfPage(ss.KeyedProcess):
    """A function with a cache that its first run fills, so later runs in the same process agree."""

    output = {"n": "int64"}  # noqa: RUF012

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        ctx.emit(FIRST.setdefault(event.page, event.n))


def with_locale(batch: pa.RecordBatch) -> Any:
    return made(batch, [len(hidden("os", "environ").get("LC_ALL", ""))] * batch.num_rows)


def with_default(batch: pa.RecordBatch, seen: list[int] = []) -> Any:  # noqa: B006
    seen.append(batch.num_rows)
    return made(batch, [sum(seen)] * batch.num_rows)


class OnTheClass(ss.KeyedProcess):
    output = {"total": "int64"}  # noqa: RUF012

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        total = COUNTS.get("class", 0) + event.n
        COUNTS["class"] = total
        ctx.emit(total)


def of_batch(batch: pa.RecordBatch) -> Any:
    return made(batch, [batch.num_rows] * batch.num_rows)


def share_of_batch(batch: pa.RecordBatch) -> Any:
    most = pc.max(batch.column("n")).as_py() if batch.num_rows else 0
    return made(batch, [int(n == most) for n in batch.column("n").to_pylist()])


# ---- clock, chance, process


def stamped(batch: pa.RecordBatch) -> Any:
    return made(batch, [hidden("time", "time_ns")()] * batch.num_rows)


def this_year(batch: pa.RecordBatch) -> Any:
    return made(batch, [hidden("datetime", "date.today")().year] * batch.num_rows)


def drawn(batch: pa.RecordBatch) -> Any:
    return made(batch, [hidden("random", "randrange")(1 << 40) for _ in range(batch.num_rows)])


def local_hour(batch: pa.RecordBatch) -> Any:
    times = batch.column("_vs").to_pylist()
    return made(batch, [datetime.datetime.fromtimestamp(t / 1e6).hour for t in times])  # noqa: DTZ006


def by_hash(batch: pa.RecordBatch) -> Any:
    found = hidden("builtins", "hash")
    return made(batch, [found(page) % 1000 for page in batch.column("page").to_pylist()])


def of_a_set(batch: pa.RecordBatch) -> Any:
    return made(batch, ["".join({*_PAGES, page}) for page in batch.column("page").to_pylist()])


# ---- state without bound


class AllPages(ss.KeyedProcess):
    output = {"pages": "int64"}  # noqa: RUF012
    pages: list[str]

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        self.pages = [*self.pages, event.page]
        ctx.set_timer("5s")

    def on_timer(self, timer: ss.Timer, ctx: ss.KeyedContext) -> None:
        ctx.emit(len(set(self.pages)))


class Remembers:
    """An operator that stores a number per event."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def execute(self, events: pa.RecordBatch, ctis: list[int]) -> Any:
        known = {name: events.column(name) for name in ("_vs", "_ve", "user")}
        self.numbers += events.column("n").to_pylist()
        return known | {"made": events.column("n")}

    def get_snapshot(self) -> dict[str, Any]:
        return {"numbers": self.numbers}

    def load(self, state: dict[str, Any]) -> None:
        self.numbers = state["numbers"]


class Forgets(Remembers):
    """An operator with state that is not in its snapshot."""

    def execute(self, events: pa.RecordBatch, ctis: list[int]) -> Any:
        found = super().execute(events, ctis)
        total, totals = sum(self.numbers) - sum(events.column("n").to_pylist()), []
        for n in events.column("n").to_pylist():
            total += n
            totals.append(total)
        return found | {"made": totals}

    def get_snapshot(self) -> dict[str, Any]:
        return {}

    def load(self, state: dict[str, Any]) -> None:
        self.numbers = []


def transformed(operator: Any) -> Callable[[ss.Stream], ss.Stream]:
    schema = {"user": "string", "made": "int64"}
    return lambda clicks: clicks.group_by("user").transform(operator, schema)


def averaged(clicks: ss.Stream) -> ss.Stream:
    window = clicks.group_by("user").window(ss.tumbling("10s"))
    return window.agg(mean=ss.agg.user(FloatMean(), "x"))


BUGS: dict[str, Any] = {
    "first of an instant": per_user(FirstPage),
    "path in order of arrival": per_user(Paths),
    "difference to the row before": per_user(Differences),
    "float sum in a process": per_user(FloatSum),
    "float mean in an aggregate": averaged,
    "number in a global dictionary": per_row(numbered),
    "log in a global list": per_user(Logged),
    "cache in a global set": per_user(Cached),
    "first number of a page in a global dictionary": per_user(FirstOfPage),
    "locale": per_row(with_locale),
    "mutable default": per_row(with_default),
    "total in a shared dictionary": per_user(OnTheClass),
    "size of the batch": per_row(of_batch),
    "greatest of the batch": per_row(share_of_batch),
    "clock": per_row(stamped),
    "this year": per_row(this_year),
    "random number": per_row(drawn),
    "local time zone": per_row(local_hour),
    "hash of a text": per_row(by_hash),
    "order of a set": per_row(of_a_set, "string"),
    "pages of all time": per_user(AllPages),
    "operator that keeps everything": transformed(Remembers()),
    "operator without its state": transformed(Forgets()),
}


# ---- healthy


class Smallest(ss.KeyedProcess):
    output = {"page": "string"}  # noqa: RUF012
    page: str | None

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        self.page = min(self.page or event.page, event.page)
        ctx.set_timer("10s")

    def on_timer(self, timer: ss.Timer, ctx: ss.KeyedContext) -> None:
        ctx.emit(self.page)
        self.page = None


class SortedPaths(Paths):
    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        self.pages = sorted([*self.pages, event.page])
        ctx.set_timer("10s")


class ExactSum(ss.KeyedProcess):
    output = {"total": "float64"}  # noqa: RUF012
    values: list[float]

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        self.values.append(event.x)
        ctx.set_timer("5s")

    def on_timer(self, timer: ss.Timer, ctx: ss.KeyedContext) -> None:
        ctx.emit(math.fsum(self.values))
        self.values = []


class LastThousand(ss.KeyedProcess):
    output = {"rows": "int64"}  # noqa: RUF012
    numbers: list[int]

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        self.numbers = [*deque([*self.numbers, event.n], maxlen=200)]
        ctx.emit(0)


class Counter(ss.KeyedProcess):
    output = {"rows": "int64"}  # noqa: RUF012
    rows: int

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        self.rows += 1
        ctx.emit(self.rows)


class Heartbeat(ss.KeyedProcess):
    output = {"beat": "int64"}  # noqa: RUF012
    left: int

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        self.left = 3
        ctx.set_timer("1m")

    def on_timer(self, timer: ss.Timer, ctx: ss.KeyedContext) -> None:
        ctx.emit(self.left)
        self.left -= 1
        if self.left:
            ctx.set_timer("1m")


class Draws(ss.KeyedProcess):
    output = {"at": "int64", "chance": "float64"}  # noqa: RUF012

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        ctx.emit(ctx.now(), ctx.random())


class ForAMonth(ss.KeyedProcess):
    output = {"rows": "int64"}  # noqa: RUF012
    times: list[int]

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        month = 30 * 86_400_000_000
        self.times = [*(t for t in self.times if t > event.vs - month), event.vs]
        ctx.set_timer("30d")
        ctx.emit(0)

    def on_timer(self, timer: ss.Timer, ctx: ss.KeyedContext) -> None:
        self.times = []


def doubled(batch: pa.RecordBatch) -> Any:
    return made(batch, pc.multiply(batch.column("n"), 2))


def ordered_set(batch: pa.RecordBatch) -> Any:
    return made(batch, ["".join(sorted({*_PAGES, p})) for p in batch.column("page").to_pylist()])


def utc_hour(batch: pa.RecordBatch) -> Any:
    times = batch.column("_vs").to_pylist()
    return made(batch, [datetime.datetime.fromtimestamp(t / 1e6, datetime.UTC).hour for t in times])


def seeded(batch: pa.RecordBatch) -> Any:
    generator = hidden("random", "Random")
    return made(batch, [generator(n).randrange(1000) for n in batch.column("n").to_pylist()])


@ss.udf(returns="int64")
def length(page: str) -> int:
    return len(page)


class Greatest:
    """An order-independent aggregate."""

    type = pa.float64()
    state_type = pa.float64()

    def init(self) -> float:
        return -math.inf

    def add(self, state: float, values: pa.Array) -> float:
        return max([state, *values.to_pylist()])

    def merge(self, state: float, other: float) -> float:
        return max(state, other)

    def result(self, state: float) -> float:
        return state


def windows(clicks: ss.Stream) -> ss.Stream:
    window = clicks.group_by("user").window(ss.hopping("10s", "5s"))
    return window.agg(
        mean=ss.agg.mean("x"), total=ss.agg.sum("x"), n=ss.agg.count(), most=ss.agg.max("page")
    )


def joined(clicks: ss.Stream) -> ss.Stream:
    pages = clicks.filter(ss.col("page") == "home").select("user", m="n").extend("5s")
    return clicks.join(pages, on="user")


SQL = """
    SELECT user, SUM(x) AS total, STDDEV(x) AS spread, COUNT(DISTINCT page) AS pages
    FROM TUMBLE(TABLE clicks, DESCRIPTOR(vs()), INTERVAL '10' SECOND)
    GROUP BY user, window_start, window_end
"""
HEALTHY: dict[str, Any] = {
    "windows": windows,
    "join": joined,
    "sessions": lambda c: c.group_by("user").window(ss.session("3s")).agg(n=ss.agg.count()),
    "filter": lambda c: c.filter(ss.col("n") > 3).select("user", m=ss.col("n") * 2),
    "union": lambda c: c.union(c).window(ss.tumbling("10s")).agg(total=ss.agg.sum("x")),
    "snapshots": lambda c: c.extend("4s").window(ss.snapshot()).agg(x=ss.agg.sum("x")),
    "SQL": "SELECT user, n + 1 AS m FROM clicks WHERE page <> 'home'",
    "smallest of an instant": per_user(Smallest),
    "path in order of names": per_user(SortedPaths),
    "exact sum in a process": per_user(ExactSum),
    "greatest in an aggregate": lambda c: (
        c.group_by("user").window(ss.tumbling("10s")).agg(x=ss.agg.user(Greatest(), "x"))
    ),
    "bounded list": per_user(LastThousand),
    "counter": per_user(Counter),
    "timers": per_user(Heartbeat),
    "drawn values": per_user(Draws),
    "state of a month": per_user(ForAMonth),
    "function of a row": per_row(doubled),
    "sorted set": per_row(ordered_set, "string"),
    "hour in UTC": per_row(utc_hour),
    "seeded by the row": per_row(seeded),
    "udf": lambda c: c.select("user", m=length(ss.col("page"))),
}
