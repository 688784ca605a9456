"""The page about views runs as it stands: a topic, a query, a table, and reads of it."""

from __future__ import annotations

import json
import re
from collections import Counter
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


def test_the_view_is_in_the_table_while_the_job_runs(
    tmp_path: Path,
    broker: Broker,
    postgres: PostgresServer,
    postgres_schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = re.search(r"<!-- view -->\n```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    table, topic = f"{postgres_schema}.visits", broker.create_topic("page-visits", 2)
    text = found[1].replace("'visits')", f"'{table}')")
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
                some = [Record(json.dumps(row).encode()) for row in new[k::2]]
                broker.produce(topic, some, k)
            expected = Counter(row["page_id"] for row in rows)
            users = {p: {r["user_id"] for r in rows if r["page_id"] == p} for p in expected}
            view = sorted((page, n, len(users[page])) for page, n in expected.items())
            watch.until(lambda _, view=view: _of(postgres, table) == view)
            watch.until(lambda _, view=view: _current(root) == view)
    finally:
        job.cancel()
        job.wait()


def _of(postgres: PostgresServer, table: str) -> list[Any]:
    if postgres.query(f"SELECT to_regclass('{table}') IS NULL") == [(True,)]:
        return []
    asked = f"SELECT page_id, visits, visitors FROM {table} ORDER BY page_id"
    return [tuple(row) for row in postgres.query(asked)]


def _current(root: str) -> list[Any]:
    table = ss.read_table(root).select(["page_id", "visits", "visitors"])
    return sorted(tuple(row.values()) for row in table.to_pylist())
