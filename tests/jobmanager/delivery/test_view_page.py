"""The page about views works as written: a topic, a query, a table, and reads of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import streamscope as ss
from tests.rooms import ROOT
from tests.support.brokers import Record
from tests.support.live import Watch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.brokers import Broker
    from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.slow
PAGE = ROOT / "docs" / "howto" / "keep-a-view.md"


def visits(seed: int, lo: int, hi: int) -> list[dict[str, Any]]:
    chance = Random(seed)
    return [
        {
            "user_id": f"u{chance.randint(0, 9)}",
            "page_id": "once" if n == 0 else f"p{chance.randint(0, 4)}",
            "action": "view",
        }
        for n in range(lo, hi)
    ]


def block(name: str) -> str:
    """The SQL block of the page below a comment."""
    found = re.search(rf"<!-- {name} -->\n```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_table_contains_the_rows_of_the_risingwave_quickstart(
    tmp_path: Path,
    broker: Broker,
    postgres: PostgresServer,
    postgres_schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last row of the topic is in the table, too."""
    table, topic = f"{postgres_schema}.visits", broker.create_topic("website-visits", 1)
    monkeypatch.setenv("VISITS_DB", postgres.dsn)
    text = block("quickstart").replace("'visits_stream_mv',", f"'{table}',")
    query = ss.sql(text, variables={"topic": topic, "servers": broker.servers})
    assert isinstance(query, ss.Query)
    now = datetime.now(UTC)
    rows = [{"timestamp": now.isoformat(), **row} for row in visits(1, 0, 50)]
    broker.produce(topic, [Record(json.dumps(row).encode()) for row in rows], 0)
    watch = Watch()
    job = ss.run(query, root=str(tmp_path / "job"), executor="local", on_status=watch)
    expected = Counter(row["page_id"] for row in rows)
    columns = "page_id AS p, total_visits, last_visit_time, window_end IS NULL"
    view = [(page, n, now, True) for page, n in sorted(expected.items())]
    try:
        watch.until(lambda _: _of(postgres, table, columns) == view)
    finally:
        job.cancel()
        job.wait()


def test_the_view_is_in_the_table_while_the_job_runs(
    tmp_path: Path,
    broker: Broker,
    postgres: PostgresServer,
    postgres_schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, topic = f"{postgres_schema}.visits", broker.create_topic("page-visits", 2)
    text = block("view").replace("'visits')", f"'{table}')")
    # a record of a slow machine is not late
    text = text.replace("INTERVAL '2' SECOND", "INTERVAL '15' SECOND")
    monkeypatch.setenv("VISITS_DB", postgres.dsn)
    query = ss.sql(text, variables={"topic": topic, "servers": broker.servers})
    assert isinstance(query, ss.Query)
    watch, root = Watch(), str(tmp_path / "job")
    job = ss.run(query, root=root, executor="local", on_status=watch)
    rows: list[dict[str, Any]] = []
    try:
        for lo in (0, 200):
            new = visits(lo, lo, lo + 200)
            rows += new
            for k in (0, 1):
                some = [Record(json.dumps(row).encode(), partition=k) for row in new[k::2]]
                broker.produce(topic, some)
            expected = Counter(row["page_id"] for row in rows)
            users = {p: {r["user_id"] for r in rows if r["page_id"] == p} for p in expected}
            view = sorted((page, n, len(users[page])) for page, n in expected.items())
            watch.until(lambda _, view=view: _of(postgres, table) == view)
            watch.until(lambda _, view=view: _current(root) == view)
    finally:
        job.cancel()
        job.wait()


def _of(
    postgres: PostgresServer, table: str, columns: str = "page_id AS p, visits, visitors"
) -> list[Any]:
    if postgres.query(f"SELECT to_regclass('{table}') IS NULL") == [(True,)]:
        return []
    asked = f"SELECT {columns} FROM {table} ORDER BY p"
    return [tuple(row) for row in postgres.query(asked)]


def _current(root: str) -> list[Any]:
    table = ss.read_table(root).select(["page_id", "visits", "visitors"])
    return sorted(tuple(row.values()) for row in table.to_pylist())
