"""TestStream: a query fed by hand returns what a job returns, and failed expectations explain.

Not covered: a wrong operator; every query here runs the real ones.
"""

from __future__ import annotations

from typing import Any

import pytest

import streamscope as ss
from rstream.errors import UsageError
from streamscope.testing import Input, TestStream, rows

ROOMS = {"room": "string", "celsius": "float64"}
MEANS = """
    SELECT room, AVG(celsius) AS mean
    FROM TUMBLE(TABLE rooms, DESCRIPTOR(at), INTERVAL '10' SECOND)
    GROUP BY room, window_start, window_end
"""


def means(rooms: ss.Stream) -> ss.Stream:
    return rooms.group_by("room").window(ss.tumbling("10s")).agg(mean=ss.agg.mean("celsius"))


class Doors(ss.KeyedProcess):
    """Counts, and reads the clock."""

    output = {"n": "int64", "now": "int64"}  # noqa: RUF012
    n: int = 0

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        self.n += 1
        ctx.emit(self.n, ctx.now())


def test_a_window_waits_for_the_watermark() -> None:
    test = TestStream(means, {"rooms": ROOMS})
    test.push("""
        | time | room  | celsius |
        |------|-------|---------|
        | 4s   | attic | 20.0    |
        | 1s   | attic | 18.0    |
    """)
    test.expect("")
    test.advance_watermark("10s")
    test.expect("""
        | start | end | room  | mean |
        | 0s    | 10s | attic | 19.0 |
    """)
    test.finish().expect("")
    assert test.output.to_pylist() == [{"_vs": 0, "_ve": 10_000_000, "room": "attic", "mean": 19.0}]


def test_sql_with_a_delay_has_the_result_of_a_job(tmp_path: Any) -> None:
    at = {"at": "timestamp", **ROOMS}
    test = TestStream(MEANS, {"rooms": Input(at, vs="at", delay="2s")})
    test.push("""
        | at   | room   | celsius |
        | 4s   | attic  | 20.0    |
        | 1s   | attic  | 99.0    |
        | 30s  | cellar | 8.0     |
    """)
    test.expect("""
        | room  | mean |
        | attic | 20.0 |
    """)
    test.expect_late("""
        | at | room  | celsius |
        | 1s | attic | 99.0    |
    """)
    test.finish()
    path = tmp_path / "rooms.csv"
    path.write_text("at,room,celsius\n4,attic,20.0\n1,attic,99.0\n30,cellar,8.0\n")
    read = ss.Stream.from_csv(path, vs=ss.col("at") * 1_000_000, delay="2s")
    with pytest.warns(ss.LateRowsWarning):
        answer = ss.collect(means(read))
    assert test.output.to_pylist() == answer.to_pylist()


def test_bad_rows_are_dead_letters_if_the_input_keeps_them() -> None:
    table = """
        | time | room  | celsius |
        | 1s   | attic | 18.0    |
        | 2s   | attic | warm    |
        |      | attic | 19.0    |
        | 3s   | attic | 20.0    |
    """
    with pytest.raises(UsageError, match="row 2, column 'celsius': 'warm' is no double"):
        TestStream(means, {"rooms": ROOMS}).push(table)
    test = TestStream(means, {"rooms": Input(ROOMS, on_bad_row="dead_letter")})
    test.push(table).finish().expect("""
        | room  | mean |
        | attic | 19.0 |
    """)
    assert test.bad.column("column").to_pylist() == ["celsius", "time"]


def test_sources_of_a_ready_query_are_inputs(tmp_path: Any) -> None:
    path = tmp_path / "rooms.csv"
    path.write_text("at,room,celsius\n2026-01-01T00:00:00Z,attic,1.5\n")
    query = means(ss.Stream.from_csv(path, vs="at", delay="1m")).to_parquet()
    test = TestStream(query)
    assert test.inputs == ("rooms",)
    test.push([{"at": "2026-01-02T00:00:01Z", "room": "attic", "celsius": 4.0}])
    test.push("""
        | at                   | room   | celsius |
        | 2026-01-02T00:02:00Z | cellar | 8.0     |
    """)
    test.expect("""
        | start                | end                  | room  | mean |
        | 2026-01-02T00:00:00Z | 2026-01-02T00:00:10Z | attic | 4.0  |
    """)


def test_a_restart_keeps_state_and_drawn_values() -> None:
    def counted(doors: ss.Stream) -> ss.Stream:
        return doors.group_by("door").process(Doors)

    test = TestStream(counted, {"doors": {"door": "string"}}, now="2026-01-01T00:00:00Z")
    test.push([{"time": "1s", "door": "a"}]).advance_watermark("1500ms").restart()
    test.advance_clock("1h").push([{"time": "2s", "door": "a"}]).advance_watermark("3s")
    test.expect("""
        | time | door | n | now              |
        | 1s   | a    | 1 | 1767225600000000 |
        | 2s   | a    | 2 | 1767229200000000 |
    """)


def test_two_inputs_and_their_watermarks() -> None:
    def joined(orders: ss.Stream, prices: ss.Stream) -> ss.Stream:
        return orders.join(prices, on="item")

    prices = rows("""
        | start | end | item: string | price: int64 |
        | 0s    | 10s | tea          | 3            |
    """)
    test = TestStream(joined, {"orders": {"item": "string"}, "prices": prices})
    with pytest.raises(UsageError, match="name an input: orders, prices"):
        test.push([{"time": "4s", "item": "tea"}])
    test.push([{"time": "4s", "item": "tea"}], to="orders").push(prices, to="prices")
    test.advance_watermark("5s", of="orders").expect("")
    test.advance_watermark("5s", of="prices")
    test.expect("""
        | time | item | price |
        | 4s   | tea  | 3     |
    """)
    assert repr(test) == "TestStream(orders, prices; watermark 5s)"


def test_a_difference_is_shown_line_by_line() -> None:
    test = TestStream(means, {"rooms": ROOMS})
    test.push([{"time": "1s", "room": "attic", "celsius": 18.25}]).finish()
    with pytest.raises(AssertionError) as failed:
        test.expect("""
            | room  | mean |
            | attic | 19.0 |
        """)
    assert str(failed.value).splitlines() == [
        "output is not as expected (- expected, + found):",
        "  | room  | mean  |",
        "  |-------|-------|",
        "- | attic | 19.0  |",
        "+ | attic | 18.25 |",
    ]


@pytest.mark.parametrize("cell", ["18.25", "18.250000000001", "~18.3", "~18"])
def test_floats_are_compared_to_nine_digits_or_the_given_ones(cell: str) -> None:
    test = TestStream(means, {"rooms": ROOMS})
    test.push([{"time": "1s", "room": "attic", "celsius": 18.26}]).finish()
    if cell == "~18.3" or cell == "~18":
        test.expect(f"| room | mean |\n| attic | {cell} |")
    else:
        with pytest.raises(AssertionError):
            test.expect(f"| room | mean |\n| attic | {cell} |")


@pytest.mark.parametrize(
    ("query", "inputs", "message"),
    [
        (means, {"rooms": ROOMS, "doors": ROOMS}, "takes|positional"),
        (lambda a, b: a, {"a": ROOMS, "b": ROOMS}, "does not read b"),
        (7, None, "not a int"),
        (ss.Stream.from_items(ROOMS, []), None, "test a function of streams instead"),
    ],
)
def test_misuse_is_named(query: Any, inputs: Any, message: str) -> None:
    with pytest.raises((UsageError, TypeError), match=message):
        TestStream(query, inputs)


def test_a_literal_that_does_not_match_is_named() -> None:
    test = TestStream(means, {"rooms": ROOMS})
    with pytest.raises(ss.UnknownColumnError, match="warmth"):
        test.push("| time | room | warmth |\n| 1s | attic | 3 |")
    with pytest.raises(UsageError, match="2 cells, the header 3"):
        rows("| time | room | celsius |\n| 1s | attic |")
    with pytest.raises(UsageError, match="a column occurs twice"):
        rows("| room | room |\n| 1s | attic |")
    with pytest.raises(UsageError, match=r"columns \['room'\], output has"):
        test.expect("| room |\n| attic |")


class Alarms(ss.KeyedProcess):
    """Counts wrong passwords and forgets them after a minute."""

    output = {"alarm": "string"}  # noqa: RUF012
    failures: int = 0
    hosts: list[str]

    def on_event(self, event: Any, ctx: ss.KeyedContext) -> None:
        self.failures += 1
        self.hosts.append(event.host)
        ctx.set_timer("1m")
        if self.failures == 3:
            ctx.emit(",".join(self.hosts))

    def on_timer(self, timer: ss.Timer, ctx: ss.KeyedContext) -> None:
        self.failures, self.hosts = 0, []


def alarms(parallelism: int = 1) -> TestStream:
    inputs = {"logins": {"user": "string", "host": "string"}}
    query = lambda logins: logins.group_by("user").process(Alarms)  # noqa: E731
    return TestStream(query, inputs, parallelism=parallelism)


def test_state_is_read_and_set() -> None:
    test = alarms()
    assert test.state() == []
    test.set_state("eve", failures=1, hosts=["old"])
    test.push("""
        | time | user | host |
        | 1s   | ann  | h1   |
        | 2s   | eve  | h2   |
        | 3s   | eve  | h3   |
    """)
    test.advance_watermark("4s").expect("""
        | time | user | alarm     |
        | 3s   | eve  | old,h2,h3 |
    """)
    found = sorted(test.state("Alarms"), key=lambda row: row["user"])
    assert found == [
        {"user": "ann", "failures": 1, "hosts": ["h1"], "timers": {"": 61_000_000}},
        {"user": "eve", "failures": 3, "hosts": ["old", "h2", "h3"], "timers": {"": 63_000_000}},
    ]
    test.set_state("eve", failures=0).push([{"time": "5s", "user": "eve", "host": "h4"}])
    test.restart().advance_watermark("6s").expect("")
    assert test.advance_watermark("2m").state() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda test: test.set_state("eve", faults=1), "Alarms has no field 'faults'"),
        (lambda test: test.set_state("eve", failures="many"), "Alarms: "),
        (lambda test: test.state("Other"), "the query has no keyed process Other"),
        (lambda _: alarms(3).set_state("eve", failures=1), "parallelism=1"),
        (lambda _: TestStream(means, {"rooms": ROOMS}).state(), "has no keyed process"),
    ],
)
def test_missing_state_is_named(change: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        change(alarms())
