"""Rows of endless streams whose end is unknown reach the destination while the job runs.

Not covered: failures.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import streamscope as ss
from tests.support.live import Watch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.brokers import Broker
    from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.slow

ORDERS = {"id": "int64", "customer": "string", "item": "string"}
PRICES = {"item": "string", "price": "int64"}
PAYMENTS = {"id": "int64", "paid": "int64"}


class Live:
    """The topics of a test, and jobs over them."""

    def __init__(self, broker: Broker, tmp_path: Path) -> None:
        self._broker, self._tmp_path = broker, tmp_path
        self._jobs: list[ss.Job] = []

    def stream(self, topic: str, schema: dict[str, str]) -> ss.Stream:
        self._broker.create_topic(topic, 2)
        return ss.Stream.from_kafka(
            topic,
            servers=self._broker.servers,
            schema=schema,
            vs="timestamp",
            delay="4s",  # records are stamped before they arrive
            idle="clock",
            idle_after="200ms",
        )

    def send(self, topic: str, rows: list[dict[str, Any]]) -> None:
        for partition in (0, 1):
            values = (json.dumps(row).encode() for row in rows[partition::2])
            self._broker.produce(topic, values, partition)

    def run(self, query: ss.Query) -> Callable[[Callable[[], bool]], object]:
        """Start a job. Return a function that waits for a condition while the job runs."""
        watch = Watch()
        root = str(self._tmp_path / f"job{len(self._jobs)}")
        self._jobs.append(ss.run(query, root=root, executor="local", on_status=watch))
        return lambda holds: watch.until(lambda _: holds())

    def end(self) -> None:
        for job in self._jobs:
            job.cancel()
            job.wait()


@pytest.fixture
def live(broker: Broker, tmp_path: Path) -> Any:
    made = Live(broker, tmp_path)
    yield made
    made.end()


def test_a_total_of_a_customer_with_one_order(
    live: Live, postgres: PostgresServer, postgres_schema: str
) -> None:
    table = f"{postgres_schema}.totals"
    orders = live.stream("totals-orders", ORDERS)
    totals = orders.group_by("customer").agg(n=ss.agg.count(), last=ss.agg.max("id"))
    until = live.run(totals.to_postgres(postgres.dsn, table, mode="upsert", key="customer"))
    names = ["once", *(f"c{n % 20}" for n in range(300))]
    expected: dict[str, tuple[int, int]] = {}
    for lo in range(0, len(names), 100):
        rows = [{"id": n, "customer": names[n], "item": "a"} for n in range(len(names))]
        live.send("totals-orders", rows[lo : lo + 100])
        for row in rows[lo : lo + 100]:
            n, last = expected.get(row["customer"], (0, 0))
            expected[row["customer"]] = (n + 1, max(last, row["id"]))
        until(lambda: _rows(postgres, f"SELECT customer, n, last FROM {table}") == expected)


def test_orders_with_the_current_price(
    live: Live, postgres: PostgresServer, postgres_schema: str
) -> None:
    table = f"{postgres_schema}.priced"
    orders = live.stream("priced-orders", ORDERS)
    prices = live.stream("priced-prices", PRICES)
    priced = orders.join(prices.upserts("item"), on="item").select("id", "price")
    live.send("priced-prices", [{"item": "a", "price": 1}, {"item": "b", "price": 2}])
    until = live.run(priced.to_postgres(postgres.dsn, table))
    # One of the prices never changes.
    for turn, price in enumerate((1, 7)):
        if turn:
            live.send("priced-prices", [{"item": "a", "price": price}])
        rows = [{"id": 100 * turn + n, "customer": "c", "item": "ab"[n % 2]} for n in range(50)]
        live.send("priced-orders", rows)
        expected = {row["id"]: (price if row["item"] == "a" else 2,) for row in rows}
        here = f"WHERE id >= {100 * turn}"
        until(lambda: _rows(postgres, f"SELECT id, price FROM {table} {here}") == expected)  # noqa: B023


def test_orders_with_their_payments_so_far(
    live: Live, postgres: PostgresServer, postgres_schema: str
) -> None:
    table = f"{postgres_schema}.paid"
    orders = live.stream("paid-orders", ORDERS).for_ever()
    payments = live.stream("paid-payments", PAYMENTS).for_ever()
    paid = orders.join(payments, on="id", how="left").select("id", "paid")
    until = live.run(paid.to_postgres(postgres.dsn, table, mode="upsert", key="id"))
    live.send("paid-orders", [{"id": n, "customer": "c", "item": "a"} for n in range(10)])
    alone = dict.fromkeys(range(10), (None,))
    until(lambda: _rows(postgres, f"SELECT id, paid FROM {table}") == alone)
    live.send("paid-payments", [{"id": n, "paid": 5} for n in range(0, 10, 2)])
    expected = {n: (None if n % 2 else 5,) for n in range(10)}
    until(lambda: _rows(postgres, f"SELECT id, paid FROM {table}") == expected)


def _rows(postgres: PostgresServer, statement: str) -> dict[Any, Any]:
    """The table's rows by their first column; empty before the table exists."""
    table = statement.split("FROM ")[1].split()[0]
    if postgres.query(f"SELECT to_regclass('{table}') IS NULL") == [(True,)]:
        return {}
    found = postgres.query(statement)
    assert len(found) == len({row[0] for row in found}), "a key twice"
    return {row[0]: tuple(row[1:]) for row in found}
