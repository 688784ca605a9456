"""The queries for Spark Structured Streaming, in append mode.

If several forms return the answer, the one with fewer stateful operators is used: the greatest row
of a window is ``max_by``, ranks are computed within a collected list, distinct counts are sizes of
sets (``count(DISTINCT ...)`` is refused). ``q13`` joins a static table.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_BID = {"bid": ("date_time", "100 milliseconds")}
_VALID = """
    auction AS a JOIN bid AS b ON a.id = b.auction AND b.date_time >= a.date_time
    AND b.date_time <= a.expires AND a.expires <= b.date_time + INTERVAL 1 SECOND
"""
_ENDS = {**_BID, "auction": ("expires", "500 milliseconds")}
_RANKS = """
    count(*) AS total_bids,
    count_if(price < 10000) AS rank1_bids,
    count_if(price >= 10000 AND price < 1000000) AS rank2_bids,
    count_if(price >= 1000000) AS rank3_bids
"""
_DISTINCT = ", ".join(
    f"size(collect_set(CASE WHEN {condition} THEN {column} END)) AS {rank}_{column}s"
    for column in ("bidder", "auction")
    for rank, condition in (
        ("total", "true"),
        ("rank1", "price < 10000"),
        ("rank2", "price >= 10000 AND price < 1000000"),
        ("rank3", "price >= 1000000"),
    )
)


@dataclass(frozen=True)
class Query:
    """A SELECT over views of the streams, and what else it needs."""

    sql: str
    kinds: tuple[str, ...] = ("bid",)
    #: Kind -> its time column and how late it may be.
    watermarks: dict[str, tuple[str, str]] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)


SPARK_SQL: dict[str, Query] = {
    "q0": Query("SELECT auction, bidder, price, date_time, extra FROM bid"),
    "q1": Query("SELECT auction, bidder, 0.908D * price AS price, date_time, extra FROM bid"),
    "q2": Query("SELECT auction, price FROM bid WHERE auction % 123 = 0"),
    "q3": Query(
        """
        SELECT p.name, p.city, p.state, a.id FROM auction AS a JOIN person AS p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
        """,
        ("person", "auction"),
    ),
    "q4": Query(
        f"""
        SELECT category, window(expires, '10 seconds').start AS start, avg(final) AS mean
        FROM (
            SELECT a.id, a.category, a.expires, max(b.price) AS final
            FROM {_VALID} GROUP BY a.id, a.category, a.expires
        ) GROUP BY category, window(expires, '10 seconds')
        """,
        ("auction", "bid"),
        _ENDS,
    ),
    "q5": Query(
        """
        SELECT start, inline(filter(list, x -> x.num = most)) FROM (
            SELECT window.start AS start, max(num) AS most,
                collect_list(struct(auction, num)) AS list
            FROM (
                SELECT auction, window(date_time, '10 seconds', '2 seconds') AS window,
                    count(*) AS num
                FROM bid GROUP BY auction, window(date_time, '10 seconds', '2 seconds')
            ) GROUP BY window
        )
        """,
        watermarks=_BID,
    ),
    "q7": Query(
        """
        SELECT best.* FROM (
            SELECT max_by(struct(auction, price, bidder, date_time, extra), price) AS best
            FROM bid GROUP BY window(date_time, '10 seconds')
        )
        """,
        watermarks=_BID,
    ),
    "q8": Query(
        """
        SELECT p.id, p.name, p.window.start AS start FROM (
            SELECT id, name, window(date_time, '10 seconds') AS window
            FROM person GROUP BY id, name, window(date_time, '10 seconds')
        ) AS p JOIN (
            SELECT seller, window(date_time, '10 seconds') AS window
            FROM auction GROUP BY seller, window(date_time, '10 seconds')
        ) AS a ON p.id = a.seller AND p.window = a.window
        """,
        ("person", "auction"),
        dict.fromkeys(("person", "auction"), ("date_time", "100 milliseconds")),
    ),
    "q9": Query(
        f"""
        SELECT won.*, best.* FROM (
            SELECT any_value(struct(a.*)) AS won, max_by(
                struct(b.bidder, b.price, b.date_time AS bid_time, b.extra AS bid_extra),
                struct(b.price, -unix_micros(b.date_time))) AS best
            FROM {_VALID} GROUP BY a.id, a.expires
        )
        """,
        ("auction", "bid"),
        _ENDS,
    ),
    "q11": Query(
        """
        SELECT bidder, count(*) AS bids, session_window.start AS start, session_window.end AS stop
        FROM bid GROUP BY bidder, session_window(date_time, '10 seconds')
        """,
        watermarks=_BID,
    ),
    "q12": Query(
        """
        SELECT bidder, count(*) AS bids, window.start AS start, window.end AS stop
        FROM bid GROUP BY bidder, window(date_time, '10 seconds')
        """,
        watermarks=_BID,
    ),
    "q13": Query(
        """
        SELECT b.auction, b.bidder, b.price, b.date_time, t.value
        FROM bid AS b JOIN side AS t ON b.auction % 10000 = t.key
        """
    ),
    "q14": Query(
        """
        SELECT auction, bidder, 0.908D * price AS price,
            CASE WHEN hour(date_time) >= 8 AND hour(date_time) <= 18 THEN 'dayTime'
                 WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
                 ELSE 'otherTime' END AS bid_time_type,
            date_time, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908D * price > 1000000 AND 0.908D * price < 50000000
        """
    ),
    "q15": Query(
        f"""
        SELECT window.start AS day, {_RANKS}, {_DISTINCT}
        FROM bid GROUP BY window(date_time, '1 day')
        """,
        watermarks=_BID,
    ),
    "q16": Query(
        f"""
        SELECT channel, window.start AS day,
            max(hour(date_time) * 100 + minute(date_time)) AS minute, {_RANKS}, {_DISTINCT}
        FROM bid GROUP BY channel, window(date_time, '1 day')
        """,
        watermarks=_BID,
    ),
    "q17": Query(
        f"""
        SELECT auction, window.start AS day, {_RANKS}, min(price) AS min_price,
            max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
        FROM bid GROUP BY auction, window(date_time, '1 day')
        """,
        watermarks=_BID,
    ),
    "q18": Query(
        """
        SELECT last.* FROM (
            SELECT max_by(struct(auction, bidder, price, channel, url, date_time, extra),
                date_time) AS last
            FROM bid GROUP BY auction, bidder, window(date_time, '10 seconds')
        )
        """,
        watermarks=_BID,
    ),
    "q19": Query(
        """
        SELECT inline(filter(list, x -> x.price >= array_min(
            slice(sort_array(transform(list, y -> y.price), false), 1, 10)))) FROM (
            SELECT collect_list(
                struct(auction, bidder, price, channel, url, date_time, extra)) AS list
            FROM bid GROUP BY auction, window(date_time, '10 seconds')
        )
        """,
        watermarks=_BID,
    ),
    "q20": Query(
        """
        SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra,
            a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS auction_time,
            a.expires, a.seller, a.category, a.extra AS auction_extra
        FROM bid AS b JOIN auction AS a ON b.auction = a.id WHERE a.category = 10
        """,
        ("auction", "bid"),
    ),
    "q21": Query(
        """
        SELECT auction, bidder, price, channel,
            CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
                WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
                ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bid
        WHERE lower(channel) IN ('apple', 'google', 'facebook', 'baidu')
            OR regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) <> ''
        """
    ),
    "q22": Query(
        """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1,
            split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
        FROM bid
        """
    ),
}
#: Queries that need a later event to close their last windows.
WINDOWED = tuple(name for name, query in SPARK_SQL.items() if query.watermarks)
