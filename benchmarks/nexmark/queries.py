"""The queries, as functions from the streams to a stream; q10 is missing.

Each query names its differences from the original text (nexmark-flink). Three differences concern
several queries: (1) A stream has no retractions. Where the original updates a result for ever, a
result here is final: per window, per day, or when its auction ends. (2) In a join without a bound
in time, a row waits ``shape.PATIENCE`` for a later partner, or lives for ever if it may be the
later partner itself. (3) ``BETWEEN`` on an auction's time is its lifetime.

q10 writes files by the clock, which is a sink and not a query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexmark import shape
from nexmark.streams import FOREVER
from planner import agg, col, snapshot, tumbling

if TYPE_CHECKING:
    from collections.abc import Callable

    from nexmark.streams import Streams
    from planner import Stream


def q0(s: Streams) -> Stream:
    """Pass through."""
    return s.sql("SELECT auction, bidder, price, date_time, extra FROM bid")


def q1(s: Streams) -> Stream:
    """Currency conversion."""
    return s.sql("SELECT auction, bidder, 0.908 * price AS price, date_time, extra FROM bid")


def q2(s: Streams) -> Stream:
    """Selection."""
    return s.sql("SELECT auction, price FROM bid WHERE auction % 123 = 0")


def q3(s: Streams) -> Stream:
    """Local item suggestion: persons live for ever; an auction waits for its seller."""
    return s.sql(
        """
        SELECT p.name, p.city, p.state, a.id
        FROM waiting AS a JOIN known AS p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
        """,
        waiting=s.auction.set_duration(shape.PATIENCE),
        known=s.person.extend(FOREVER),
    )


def closed_bids(s: Streams) -> Stream:
    """Return the valid bids of each auction, as points at its end."""
    pairs = s.sql(
        """
        SELECT a.id, a.category, a.seller, b.bidder, b.price, b.date_time AS bid_time,
            b.extra AS bid_extra
        FROM patient AS b JOIN open AS a ON b.auction = a.id
        WHERE b.date_time >= a.date_time
        """,
        patient=s.patient_bid,
        open=s.open_auction,
    )
    return pairs.point_at_end().shift(-1)


def q4(s: Streams) -> Stream:
    """Mean price per category and 10 s of ends of auctions (the original: of all time)."""
    return s.sql(
        """
        SELECT category, window_start AS start, avg(final) AS mean
        FROM (
            SELECT id, category, max(price) AS final FROM closed GROUP BY id, category, SNAPSHOT()
        ) AS prices
        GROUP BY category, TUMBLE('10 seconds')
        """,
        closed=closed_bids(s),
    )


def q5(s: Streams) -> Stream:
    """Hot items: the auctions with the most bids of each 10 s, every 2 s.

    Counts are compared when they are two seconds old, since then only counts of one window are
    valid.
    """
    counts = s.sql(
        """
        SELECT auction, window_start AS start, count(*) AS num
        FROM bid GROUP BY auction, HOP('10 seconds', '2 seconds')
        """
    ).set_duration("2s")
    most = counts.window(tumbling("2s")).agg(num=agg.max("num"))
    return counts.join(most, on="num")


def q6(s: Streams) -> Stream:
    """Mean of the last ten prices of each seller, whenever one of his auctions ends.

    Auctions that end at the same time count in the order of their ids.
    """
    return s.sql(
        """
        SELECT seller, id, avg(final) OVER (
            PARTITION BY seller ORDER BY vs(), id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW
        ) AS mean
        FROM (
            SELECT id, seller, max(price) AS final FROM closed GROUP BY id, seller, SNAPSHOT()
        ) AS finals
        """,
        closed=closed_bids(s),
    )


def q7(s: Streams) -> Stream:
    """Highest bid of each 10 s; of equal ones the first (the original returns all)."""
    return s.sql(
        """
        SELECT max_by(auction, price) AS auction, max(price) AS price,
            max_by(bidder, price) AS bidder, max_by(date_time, price) AS date_time,
            max_by(extra, price) AS extra
        FROM bid GROUP BY TUMBLE('10 seconds')
        """
    )


def q8(s: Streams) -> Stream:
    """People who registered and opened an auction within the same 10 s."""
    return s.sql(
        """
        SELECT p.id, p.name, p.start
        FROM (
            SELECT id, name, window_start AS start, count(*) AS n
            FROM person GROUP BY id, name, TUMBLE('10 seconds')
        ) AS p JOIN (
            SELECT seller, count(*) AS n FROM auction GROUP BY seller, TUMBLE('10 seconds')
        ) AS a ON p.id = a.seller
        """
    )


def q9(s: Streams) -> Stream:
    """Winning bids: when an auction ends, its highest valid bid, of equal ones the first."""
    won = s.sql(
        """
        SELECT id, max_by(bidder, price) AS bidder, max(price) AS price,
            max_by(bid_time, price) AS bid_time, max_by(bid_extra, price) AS bid_extra
        FROM closed GROUP BY id, SNAPSHOT()
        """,
        closed=closed_bids(s),
    )
    return s.open_auction.join(won, on="id")


def q11(s: Streams) -> Stream:
    """Sessions of bidders, which end after 10 s without a bid."""
    return s.sql(
        """
        SELECT bidder, count(*) AS bids, window_start AS start, window_end AS stop
        FROM bid GROUP BY bidder, SESSION('10 seconds')
        """
    )


def q12(s: Streams) -> Stream:
    """Bids of each bidder per 10 s of event time (the original uses processing time)."""
    return s.sql(
        """
        SELECT bidder, count(*) AS bids, window_start AS start, window_end AS stop
        FROM bid GROUP BY bidder, TUMBLE('10 seconds')
        """
    )


def q13(s: Streams) -> Stream:
    """Join with a bounded side table."""
    return s.sql(
        """
        SELECT b.auction, b.bidder, b.price, b.date_time, t.value
        FROM (SELECT auction, bidder, price, date_time, auction % 10000 AS key FROM bid) AS b
        JOIN side AS t ON b.key = t.key
        """,
        side=s.side,
    )


def q14(s: Streams) -> Stream:
    """Calculation: a filter, a CASE and the number of letters c."""
    return s.sql(
        """
        SELECT auction, bidder, 0.908 * price AS price,
            CASE WHEN hour(date_time) >= 8 AND hour(date_time) <= 18 THEN 'dayTime'
                 WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
                 ELSE 'otherTime' END AS bid_time_type,
            date_time, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bid
        WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
        """
    )


_RANKS = """
    count(*) AS total_bids,
    count(*) FILTER (WHERE price < 10000) AS rank1_bids,
    count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
    count(*) FILTER (WHERE price >= 1000000) AS rank3_bids
"""
_DISTINCT = """
    count(DISTINCT bidder) AS total_bidders,
    count(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
    count(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bidders,
    count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidders,
    count(DISTINCT auction) AS total_auctions,
    count(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auctions,
    count(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_auctions,
    count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions
"""


def q15(s: Streams) -> Stream:
    """Statistics per day, emitted when the day ends."""
    return s.sql(
        f"SELECT window_start AS day, {_RANKS}, {_DISTINCT} FROM bid GROUP BY TUMBLE('1 day')"
    )


def q16(s: Streams) -> Stream:
    """Statistics per channel and day; the latest minute is a number, 1430 for 14:30."""
    return s.sql(
        f"""
        SELECT channel, window_start AS day,
            max(hour(date_time) * 100 + minute(date_time)) AS minute, {_RANKS}, {_DISTINCT}
        FROM bid GROUP BY channel, TUMBLE('1 day')
        """
    )


def q17(s: Streams) -> Stream:
    """Statistics per auction and day."""
    return s.sql(
        f"""
        SELECT auction, window_start AS day, {_RANKS}, min(price) AS min_price,
            max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
        FROM bid GROUP BY auction, TUMBLE('1 day')
        """
    )


def q18(s: Streams) -> Stream:
    """The last bid of each bidder on each auction, per 10 s (the original: of all time)."""
    return s.sql(
        """
        SELECT auction, bidder, last(price) AS price, last(channel) AS channel, last(url) AS url,
            last(date_time) AS date_time, last(extra) AS extra
        FROM bid GROUP BY auction, bidder, TUMBLE('10 seconds')
        """
    )


def q19(s: Streams) -> Stream:
    """The ten highest bids of each auction per 10 s, by rank.

    The original has no windows, and numbers rows, so its choice among equal bids is arbitrary.
    """
    ten = s.bid.group_by("auction").window(tumbling("10s")).agg(price=agg.top_k("price", 10))
    least = ten.explode("price").group_by("auction").window(snapshot()).agg(least=agg.min("price"))
    pairs = s.bid.join(least, on="auction").filter(col("price") >= col("least"))
    return pairs.drop("least")


def q20(s: Streams) -> Stream:
    """Bids with their auctions of category 10.

    Auctions live for ever, a bid waits for its auction.
    """
    return s.sql(
        """
        SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra,
            a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS auction_time,
            a.expires, a.seller, a.category, a.extra AS auction_extra
        FROM patient AS b JOIN known AS a ON b.auction = a.id
        WHERE a.category = 10
        """,
        patient=s.patient_bid,
        known=s.auction.extend(FOREVER),
    )


def q21(s: Streams) -> Stream:
    """Channel numbers: those of known names, otherwise from the URL."""
    return s.sql(
        """
        SELECT auction, bidder, price, channel,
            CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
                 WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
                 ELSE split_part(split_part(url, '&channel_id=', 2), '&', 1) END AS channel_id
        FROM bid
        WHERE url LIKE '%&channel_id=%'
            OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')
        """
    )


def q22(s: Streams) -> Stream:
    """The directories of an URL."""
    return s.sql(
        """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1,
            split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
        FROM bid
        """
    )


QUERIES: dict[str, Callable[[Streams], Stream]] = {
    query.__name__: query
    for query in (q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, q11, q12, q13, q14, q15, q16, q17, q18,
                  q19, q20, q21, q22)
}  # fmt: skip
