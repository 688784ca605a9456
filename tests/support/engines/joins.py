"""Joins and lifetimes: Flink's interval and temporal joins, RisingWave's, Trill's lifetimes."""

from __future__ import annotations

from planner import Stream, col
from rstream.types import INF_TIME
from tests.support.engines.case import Case, Row, Us, points, table

FOREVER = Us(INF_TIME)
ORDERS = points({"o": "int64", "want": "int64"}, (0, 1, 10), (5, 2, 20), (9, 3, 30))
SHIPS = points({"o": "int64", "sent": "int64"}, (4, 1, 10), (6, 2, 5), (20, 3, 30))
RATES = points({"cur": "string", "rate": "int64"}, (0, "EUR", 100), (10, "EUR", 110))
PAID = points(
    {"cur": "string", "amount": "int64"},
    (5, "EUR", 2), (10, "EUR", 3), (12, "USD", 1), (14, None, 4),
)  # fmt: skip
VERSIONS = RATES.set_duration("1d").clip(RATES, on="cur")
LEFT = table({"k": "string", "x": "int64"}, (0, 10, "a", 1), (2, 6, "b", 2), (3, 7, None, 3))
RIGHT = table({"k": "string", "y": "int64"}, (4, 8, "a", 5), (10, 12, "a", 6), (1, 9, None, 7))
SPANS = table(
    {"k": "string"}, (1, 5, "a"), (5, 7, "a"), (6, 9, "a"), (2, 3, "b"), (11, FOREVER, "b")
)
STAFF = table(
    {"name": "string", "boss": "string"}, (0, 9, "ann", None), (2, 9, "bob", "ann"),
    (4, 6, "cid", "bob"),
)  # fmt: skip

STREAMS = {
    "orders": ORDERS, "ships": SHIPS, "rates": RATES, "paid": PAID, "versions": VERSIONS,
    "l": LEFT, "r": RIGHT, "spans": SPANS, "staff": STAFF,
    "due": ORDERS.set_duration("4s"), "until": ORDERS.set_duration(4_000_001),
}  # fmt: skip


def _case(engine: str, rule: str, *asked: Stream | str, rows: list[Row], differs: str = "") -> Case:
    return Case(engine, rule, asked, rows, differs, STREAMS)


CASES: dict[str, Case] = {
    "interval join": _case(
        "Flink",
        "Shipments within four seconds of their order.",
        ORDERS.set_duration("4s").join(SHIPS, on="o"),
        "SELECT d.o, d.want, s.sent FROM due AS d JOIN ships AS s ON d.o = s.o",
        rows=[(6, None, 2, 20, 5)],
        differs="Flink's bounds are inclusive, so it has the pair of order 1, four seconds apart.",
    ),
    "interval join with its upper bound": _case(
        "Flink",
        "An interval join has the pairs exactly at its bounds.",
        ORDERS.set_duration(4_000_001).join(SHIPS, on="o"),
        "SELECT d.o, d.want, s.sent FROM until AS d JOIN ships AS s ON d.o = s.o",
        rows=[(4, None, 1, 10, 10), (6, None, 2, 20, 5)],
    ),
    "interval join with both bounds": _case(
        "Flink",
        "The lower bound may lie before the row.",
        points({"k": "int64"}, (10, 1))
        .shift("-2s")
        .set_duration(3_000_001)
        .join(
            points({"k": "int64", "t": "int64"}, (7, 1, 7), (8, 1, 8), (11, 1, 11), (12, 1, 12)),
            on="k",
        ),
        rows=[(8, None, 1, 8), (11, None, 1, 11)],
    ),
    "interval left join": _case(
        "Flink",
        "An order without a shipment in time is there with nulls.",
        ORDERS.filter(col("o") > 1).set_duration("4s").join(SHIPS, on="o", how="left"),
        """SELECT d.o, d.want, s.sent FROM due AS d LEFT JOIN ships AS s ON d.o = s.o
           WHERE d.o > 1""",
        rows=[
            (5, 6, 2, 20, None),
            (6, None, 2, 20, 5),
            (Us(6_000_001), 9, 2, 20, None),
            (9, 13, 3, 30, None),
        ],
        differs="Flink has the null row once for a row without any pair; here it lives while "
        "there is no match, before and after one too.",
    ),
    "join on a condition": _case(
        "RisingWave",
        "The other conditions of an inner join filter the pairs.",
        ORDERS.set_duration(4_000_001).join(SHIPS, on="o", where=col("sent") < col("want")),
        """SELECT d.o, d.want, s.sent FROM until AS d
           JOIN ships AS s ON d.o = s.o AND s.sent < d.want""",
        rows=[(6, None, 2, 20, 5)],
    ),
    "temporal join": _case(
        "Flink",
        "A row meets the version that is valid at its time; a version holds from its own time on.",
        PAID.join(VERSIONS, on="cur"),
        "SELECT p.cur, p.amount, v.rate FROM paid AS p JOIN versions AS v ON p.cur = v.cur",
        rows=[(5, None, "EUR", 2, 100), (10, None, "EUR", 3, 110)],
    ),
    "temporal left join": _case(
        "Flink",
        "A row without a version is kept with nulls, also one whose key is null.",
        PAID.join(VERSIONS, on="cur", how="left"),
        """SELECT p.cur, p.amount, v.rate FROM paid AS p
           LEFT JOIN versions AS v ON p.cur = v.cur""",
        rows=[
            (5, None, "EUR", 2, 100),
            (10, None, "EUR", 3, 110),
            (12, None, "USD", 1, None),
            (14, None, None, 4, None),
        ],
    ),
    "versions": _case(
        "RisingWave",
        "Each version is valid until the next of its key.",
        VERSIONS,
        rows=[(0, 10, "EUR", 100), (10, 86_410, "EUR", 110)],
    ),
    "rows before the first version": _case(
        "Flink",
        "A row before the first version of its key meets none.",
        PAID.join(VERSIONS.shift("6s"), on="cur"),
        rows=[(10, None, "EUR", 3, 100)],
    ),
    "join of lifetimes": _case(
        "Trill",
        "A pair lives while both do; lifetimes that only touch do not meet; null equals nothing.",
        LEFT.join(RIGHT, on="k"),
        "SELECT l.k, l.x, r.y FROM l JOIN r ON l.k = r.k",
        rows=[(4, 8, "a", 1, 5)],
    ),
    "left join of lifetimes": _case(
        "Trill",
        "A left outer join is the join and what of the left has no partner.",
        LEFT.join(RIGHT, on="k", how="left"),
        "SELECT l.k, l.x, r.y FROM l LEFT JOIN r ON l.k = r.k",
        rows=[
            (0, 4, "a", 1, None),
            (4, 8, "a", 1, 5),
            (8, 10, "a", 1, None),
            (2, 6, "b", 2, None),
            (3, 7, None, 3, None),
        ],
    ),
    "where not exists": _case(
        "Trill",
        "The pieces of the left lifetimes that no match covers.",
        LEFT.join(RIGHT, on="k", how="anti"),
        "SELECT * FROM l WHERE NOT EXISTS (SELECT * FROM r WHERE r.k = l.k)",
        "SELECT * FROM l ANTI JOIN r ON l.k = r.k",
        rows=[(0, 4, "a", 1), (8, 10, "a", 1), (2, 6, "b", 2), (3, 7, None, 3)],
    ),
    "exists": _case(
        "RisingWave",
        "A row with a null key has no partner, and a partner counts once, however many there are.",
        "SELECT * FROM l WHERE EXISTS (SELECT * FROM r WHERE r.k = l.k)",
        rows=[(4, 8, "a", 1)],
    ),
    "exists with many partners": _case(
        "RisingWave",
        "EXISTS does not multiply rows.",
        "SELECT l.k, l.x FROM l WHERE EXISTS (SELECT * FROM spans AS s WHERE s.k = l.k)",
        rows=[(1, 9, "a", 1), (2, 3, "b", 2)],
    ),
    "not exists with a null condition": _case(
        "Flink",
        "A condition that is null finds nothing, so NOT EXISTS holds.",
        """SELECT l.k, l.x FROM l
           WHERE NOT EXISTS (SELECT * FROM r WHERE r.k = l.k AND r.y > nullif(l.x, 1))""",
        rows=[(0, 10, "a", 1), (2, 6, "b", 2), (3, 7, None, 3)],
    ),
    "left join condition in ON": _case(
        "RisingWave",
        "A condition in ON decides what matches; left rows stay.",
        LEFT.join(RIGHT, on="k", how="left", where=col("y") > 5),
        "SELECT l.k, l.x, r.y FROM l LEFT JOIN r ON l.k = r.k AND r.y > 5",
        rows=[(0, 10, "a", 1, None), (2, 6, "b", 2, None), (3, 7, None, 3, None)],
    ),
    "left join condition in WHERE": _case(
        "RisingWave",
        "A condition in WHERE comes after the join and drops the nulls.",
        LEFT.join(RIGHT, on="k", how="left").filter(col("y") > 4),
        "SELECT l.k, l.x, r.y FROM l LEFT JOIN r ON l.k = r.k WHERE r.y > 4",
        rows=[(4, 8, "a", 1, 5)],
    ),
    "self join": _case(
        "Arroyo",
        "A stream may be joined to itself under two names.",
        """SELECT e.name, b.name AS over FROM staff AS e JOIN staff AS b ON e.boss = b.name""",
        rows=[(2, 9, "bob", "ann"), (4, 6, "cid", "bob")],
    ),
    "join of three": _case(
        "Flink",
        "Joins follow each other.",
        """SELECT e.name, c.name AS top FROM staff AS e
           JOIN staff AS b ON e.boss = b.name JOIN staff AS c ON b.boss = c.name""",
        rows=[(4, 6, "cid", "ann")],
    ),
    "set duration": _case(
        "Trill",
        "AlterEventDuration gives all events one length.",
        SPANS.filter(col("k") == "b").set_duration("4s"),
        rows=[(2, 6, "b"), (11, 15, "b")],
    ),
    "shift": _case(
        "Trill",
        "ShiftEventLifetime moves both ends; what has no end keeps none.",
        SPANS.filter(col("k") == "b").shift("-3s"),
        rows=[(-1, 0, "b"), (8, FOREVER, "b")],
    ),
    "extend": _case(
        "Trill",
        "ExtendLifetime moves ends; what would be empty is gone.",
        SPANS.extend("-2s"),
        rows=[(1, 3, "a"), (6, 7, "a"), (11, FOREVER, "b")],
    ),
    "point at end": _case(
        "Trill",
        "PointAtEnd gives a point where an event ends.",
        SPANS.point_at_end(),
        rows=[(3, None, "b"), (5, None, "a"), (7, None, "a"), (9, None, "a")],
    ),
    "chop": _case(
        "Trill",
        "Chop cuts lifetimes on a grid; a piece that lies within one step stays whole.",
        SPANS.filter(col("k") == "a").chop("4s"),
        rows=[(1, 4, "a"), (4, 5, "a"), (5, 7, "a"), (6, 8, "a"), (8, 9, "a")],
    ),
    "chop without end": _case(
        "Trill",
        "Chop after a limit.",
        SPANS.filter(col("k") == "b").set_duration("6s").chop("10s"),
        rows=[(2, 8, "b"), (11, 17, "b")],
        differs="Trill's Chop cuts without end; here an event without end is an error.",
    ),
    "stitch": _case(
        "Trill",
        "Stitch joins an event that ends where the next of equal payload starts.",
        SPANS.stitch("k"),
        rows=[(1, 9, "a"), (2, 3, "b"), (11, FOREVER, "b")],
        differs="Trill leaves the overlap of [5, 7) and [6, 9) alone; here it is merged too.",
    ),
    "stitch undoes chop": _case(
        "Trill",
        "The pieces of a chop stitch to what was chopped.",
        LEFT.chop("3s").stitch(),
        rows=[(0, 10, "a", 1), (2, 6, "b", 2), (3, 7, None, 3)],
    ),
    "clip": _case(
        "Trill",
        "ClipEventDuration ends an event at the next match on the other side.",
        LEFT.clip(RIGHT, on="k"),
        rows=[(0, 4, "a", 1), (2, 6, "b", 2), (3, 7, None, 3)],
    ),
    "clip at the start": _case(
        "Trill",
        "A match at the event's own start does not clip it.",
        SPANS.filter(col("k") == "a").clip(SPANS, on="k"),
        rows=[(1, 5, "a"), (5, 6, "a"), (6, 9, "a")],
    ),
    "union": _case(
        "Flink",
        "UNION ALL keeps equal rows.",
        ORDERS.select("o").union(ORDERS.select("o")),
        "SELECT o FROM orders UNION ALL SELECT o FROM orders",
        rows=[(t, None, o) for t, o in ((0, 1), (0, 1), (5, 2), (5, 2), (9, 3), (9, 3))],
    ),
    "union by place": _case(
        "RisingWave",
        "UNION ALL matches columns by place and takes the names of the first.",
        "SELECT want AS n FROM orders WHERE o = 1 UNION ALL SELECT sent FROM ships WHERE o = 2",
        rows=[(0, None, 10), (6, None, 5)],
    ),
}
