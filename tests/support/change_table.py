"""The changes of change-a-job.md: the page has their verdicts, this file their queries.

A row of the page without queries fails its tests, and so do queries without a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import streamscope as ss
from planner.logical.query import Query
from tests.rooms import ROOT

if TYPE_CHECKING:
    from jobmanager.driver.running.changes.compare import Comparison

PAGE = ROOT / "docs/howto/change-a-job.md"
BY_KEY = 'rows.group_by("key")'
N, WINDOW = "n=ss.agg.count()", '.window(ss.tumbling("1s"))'
COUNTS = f"{BY_KEY}{WINDOW}.agg({N})"
JOINED = 'rows.join(other, on="key", within=("-100ms", "0s")).select("key", "t", '
SIDE = f'{JOINED}y=ss.col("x_right"))'
PAIRED = f'{SIDE}.group_by("key").window(ss.tumbling("500ms")).agg({N})'
SESSIONS = f'{BY_KEY}.window(ss.session("1s")).agg({N})'
STRONG = f'{COUNTS}.recover_with("strong")'
DRAWN = 'rows.group_by("key").process(Draws)'
FEW = f'{COUNTS}.filter(ss.col("key") > 1)'
#: The query before and the query after, by the words of the page.
CHANGES = {
    "the same query": (COUNTS, COUNTS),
    "another name in the file": (COUNTS, f"(lambda counts: counts)({COUNTS})"),
    "an aggregate is added": (COUNTS, f'{BY_KEY}{WINDOW}.agg({N}, t=ss.agg.sum("x"))'),
    "an aggregate that stores values is added": (
        COUNTS.replace("1s", "1500ms"),
        COUNTS.replace("1s", "1500ms").replace(N, f'{N}, d=ss.agg.count_distinct("x")'),
    ),
    "an aggregate is added to a session": (
        SESSIONS,
        SESSIONS.replace(N, f'{N}, t=ss.agg.max("t")'),
    ),
    "a computed column is added": (COUNTS, f'{COUNTS}.with_columns(twice=ss.col("n") * 2)'),
    "a column of a join's side is added": (
        SIDE,
        SIDE.replace("y=", 'z=ss.col("t_right"), y='),
    ),
    "a filter is added after a window": (COUNTS, FEW),
    "a filter is added before a window": (
        COUNTS,
        COUNTS.replace("rows", 'rows.filter(ss.col("x") > 9)'),
    ),
    "a filter has another constant": (FEW, FEW.replace("> 1", "> 2")),
    "a window is longer": (COUNTS, COUNTS.replace("1s", "2s")),
    "a window slides": (COUNTS, COUNTS.replace('tumbling("1s")', 'hopping("1s", "500ms")')),
    "a session has another gap": (SESSIONS, SESSIONS.replace("1s", "2s")),
    "another key": (COUNTS, f'{COUNTS.replace("key", "x")}.select("n", key=ss.col("x"))'),
    "a join reaches further back": (SIDE, SIDE.replace("-100ms", "-200ms")),
    "a join before a window reaches further back": (PAIRED, PAIRED.replace("-100ms", "-200ms")),
    "a step is added after the window": (COUNTS, f'{COUNTS}.deduplicate("key", within="1s")'),
    "a window becomes a session": (COUNTS, SESSIONS),
    "an output column is removed": (COUNTS, f'{COUNTS}.select("key")'),
    "an output column has another type": (COUNTS, f'{COUNTS}.select("key", n=ss.col("n") * 1.5)'),
    "the output goes to another folder": (COUNTS, f'{COUNTS}.to_parquet("/elsewhere")'),
    "another source": (COUNTS, COUNTS.replace("rows", "other")),
    "a source ends that had no end": (COUNTS, COUNTS.replace("rows", "ended")),
    "a source has its time in another column": (COUNTS, COUNTS.replace("rows", "by_x")),
    "a stage is recovered as `strong`": (STRONG, STRONG),
    "user code draws values": (DRAWN, DRAWN),
    "a second output": (
        COUNTS,
        f"together({{'a': {COUNTS}.to_parquet(), 'b': {SESSIONS}.to_parquet()}})",
    ),
}
_SOURCES = "keep the sources and the last step"
_ENDS = f"would write the output from other inputs or in other steps than stage .*: {_SOURCES}"
#: Why a change is refused and what to write instead: patterns for the message.
REASONS = {
    "an output column is removed": "removed: keep it",
    "an output column has another type": "column 'n' of the output would be double, not int64: "
    "give the new values another name",
    "the output goes to another folder": "its output would move from .* to /elsewhere: keep the",
    "another source": _ENDS,
    "a window becomes a session": "would write the output with 'final aggregate session 1s .*' "
    f"instead of 'final aggregate tumbling 1s .*': {_SOURCES}",
    "a source ends that had no end": _ENDS,
    "a source has its time in another column": "would read its source with another vs: keep it",
    "a stage is recovered as `strong`": "is recovered as 'strong', so it cannot be changed: "
    "start jobs that may change with",
    "user code draws values": "which are logged, so it cannot be changed: call the function in a "
    "separate job",
    "a second output": "its outputs would be a, b, not output: keep their names and their order",
}
_MODULE = """
import streamscope as ss
from planner.logical.query import together
from tests.support.change_table import Draws

def log(uri, vs="t", follow={follow}):
    found = ss.Stream.from_rstream(uri, vs=vs, delay="0ms", follow=follow, idle_after="100ms")
    return found{then}

rows, other = log({rows!r}), log({other!r})
by_x, ended = log({rows!r}, vs="x"), log({rows!r}, follow=False)
query = {text}
"""


class Draws(ss.KeyedProcess):
    """Draws random values, which are logged."""

    output: ClassVar[dict[str, str]] = {"value": "float64"}

    def on_event(self, event: Any, ctx: Any) -> None:
        ctx.emit(ctx.random())


def rows_of_page(head: str) -> dict[str, str]:
    """The first two columns of the page's table with these titles."""
    lines = PAGE.read_text().partition(f"| {head} |\n|---|---|\n")[2].splitlines()
    ends = next(k for k, line in enumerate(lines) if not line.startswith("|"))
    cells = [line.strip("| ").split(" | ") for line in lines[:ends]]
    assert cells, head
    return dict(cells)


#: Verdicts, and what to write instead of a refused change.
VERDICTS, ADVICE = rows_of_page("change | state"), rows_of_page("change | what to write instead")


def verdict(found: Comparison) -> str:
    """Return the verdict of the stage that keeps the least state."""
    if found.refusals:
        return "refused"
    verdicts = {row.verdict for row in found.rows}
    order = ("dropped", "started empty", "converted", "kept")
    return next(one for one in order if one in verdicts)


def module(text: str, rows: str, other: str, *, since_us: int | None = None) -> str:
    """The source of a file with the query ``text`` over two logs that grow.

    ``since_us``: instead, over the rows from this time on that are there.
    """
    then = "" if since_us is None else f'.filter(ss.col("t") >= {since_us})'
    follow = since_us is None
    return _MODULE.format(text=text, rows=rows, other=other, follow=follow, then=then)


def query_of(text: str, rows: str, other: str) -> Query:
    """The query of such a file."""
    names: dict[str, Any] = {}
    exec(module(text, rows, other), names)
    query = names["query"]
    return query if isinstance(query, Query) else query.to_parquet()
