"""The queries for Flink SQL, in streaming mode, as nexmark-flink writes them where it can.

Only queries whose answer is append-only: a file sink takes no retractions. ``q4`` and ``q9`` need
the best row of a join without a window, ``q6`` is not supported by Flink, the rank of ``q19`` may
only be a row number there.
"""

from __future__ import annotations

_SPLIT = ", ".join(f"SPLIT_INDEX(url, '/', {k + 2}) AS dir{k}" for k in (1, 2, 3))
_RANKS = """
    COUNT(*) AS total_bids,
    COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
    COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
    COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids
"""
_DISTINCT = ", ".join(
    f"COUNT(DISTINCT {column}) FILTER (WHERE {condition}) AS {rank}_{column}s"
    for column in ("bidder", "auction")
    for rank, condition in (
        ("total", "TRUE"),
        ("rank1", "price < 10000"),
        ("rank2", "price >= 10000 AND price < 1000000"),
        ("rank3", "price >= 1000000"),
    )
)
_TEN_S = "DESCRIPTOR(ts), INTERVAL '10' SECOND"
_EURO = "CAST(price AS DOUBLE) * CAST(0.908 AS DOUBLE)"

FLINK_SQL: dict[str, str] = {
    "q0": "SELECT auction, bidder, price, date_time, extra FROM bid",
    "q1": f"SELECT auction, bidder, {_EURO} AS price, date_time, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """
        SELECT p.name, p.city, p.state, a.id FROM auction AS a JOIN person AS p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
    """,
    "q5": """
        WITH counts AS (
            SELECT auction, window_start, window_end, COUNT(*) AS num
            FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND,
                INTERVAL '10' SECOND))
            GROUP BY auction, window_start, window_end
        ), most AS (
            SELECT MAX(num) AS num, window_start, window_end FROM counts
            GROUP BY window_start, window_end
        )
        SELECT c.auction, c.window_start AS `start`, c.num FROM counts AS c JOIN most AS m
        ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num = m.num
    """,
    "q7": f"""
        SELECT auction, price, bidder, date_time, extra FROM (
            SELECT *, ROW_NUMBER() OVER (
                PARTITION BY window_start, window_end ORDER BY price DESC, date_time) AS place
            FROM TABLE(TUMBLE(TABLE bid, {_TEN_S}))
        ) WHERE place = 1
    """,
    "q8": f"""
        SELECT p.id, p.name, p.window_start AS `start` FROM (
            SELECT id, name, window_start, window_end FROM TABLE(TUMBLE(TABLE person, {_TEN_S}))
            GROUP BY id, name, window_start, window_end
        ) AS p JOIN (
            SELECT seller, window_start, window_end FROM TABLE(TUMBLE(TABLE auction, {_TEN_S}))
            GROUP BY seller, window_start, window_end
        ) AS a ON p.id = a.seller
            AND p.window_start = a.window_start AND p.window_end = a.window_end
    """,
    "q11": """
        SELECT bidder, COUNT(*) AS bids, MIN(date_time) AS `start`,
            MAX(date_time) + 10000000 AS `stop`
        FROM bid GROUP BY bidder, SESSION(ts, INTERVAL '10' SECOND)
    """,
    "q12": f"""
        SELECT bidder, COUNT(*) AS bids, window_start AS `start`, window_end AS `stop`
        FROM TABLE(TUMBLE(TABLE bid, {_TEN_S})) GROUP BY bidder, window_start, window_end
    """,
    "q14": f"""
        SELECT auction, bidder, {_EURO} AS price,
            CASE WHEN HOUR(ts) >= 8 AND HOUR(ts) <= 18 THEN 'dayTime'
                 WHEN HOUR(ts) <= 6 OR HOUR(ts) >= 20 THEN 'nightTime'
                 ELSE 'otherTime' END AS bid_time_type,
            date_time, extra,
            CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts
        FROM bid WHERE {_EURO} > 1000000 AND {_EURO} < 50000000
    """,
    "q15": f"""
        SELECT window_start AS `day`, {_RANKS}, {_DISTINCT}
        FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' DAY))
        GROUP BY window_start, window_end
    """,
    "q16": f"""
        SELECT channel, window_start AS `day`,
            MAX(HOUR(ts) * 100 + MINUTE(ts)) AS `minute`, {_RANKS}, {_DISTINCT}
        FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' DAY))
        GROUP BY channel, window_start, window_end
    """,
    "q17": f"""
        SELECT auction, window_start AS `day`, {_RANKS}, MIN(price) AS min_price,
            MAX(price) AS max_price, CAST(SUM(price) AS DOUBLE) / COUNT(*) AS avg_price,
            SUM(price) AS sum_price
        FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' DAY))
        GROUP BY auction, window_start, window_end
    """,
    "q18": f"""
        SELECT auction, bidder, price, channel, url, date_time, extra FROM (
            SELECT *, ROW_NUMBER() OVER (
                PARTITION BY auction, bidder, window_start, window_end ORDER BY date_time DESC
            ) AS place
            FROM TABLE(TUMBLE(TABLE bid, {_TEN_S}))
        ) WHERE place = 1
    """,
    "q20": """
        SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra,
            a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS auction_time,
            a.expires, a.seller, a.category, a.extra AS auction_extra
        FROM bid AS b JOIN auction AS a ON b.auction = a.id WHERE a.category = 10
    """,
    "q21": """
        SELECT auction, bidder, price, channel,
            CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
                WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
                ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bid
        WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) IS NOT NULL
            OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')
    """,
    "q22": f"SELECT auction, bidder, price, channel, {_SPLIT} FROM bid",
}
