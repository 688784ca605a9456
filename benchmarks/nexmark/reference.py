"""The answers according to DuckDB, as a batch on the same files.

Every text returns the columns of our query of that name. Windows are computed from ``epoch_us``.
"""

from __future__ import annotations

_TEN_S = "make_timestamp(epoch_us({0}) // 10000000 * 10000000)"
_VALID = "b.auction = a.id AND b.date_time BETWEEN a.date_time AND a.expires"

_RANKS = """
    count(*) AS total_bids,
    count(*) FILTER (WHERE price < 10000) AS rank1_bids,
    count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
    count(*) FILTER (WHERE price >= 1000000) AS rank3_bids
"""
_DISTINCT = ", ".join(
    f"count(DISTINCT {column}) FILTER (WHERE {condition}) AS {rank}_{column}s"
    for column in ("bidder", "auction")
    for rank, condition in (
        ("total", "true"),
        ("rank1", "price < 10000"),
        ("rank2", "price >= 10000 AND price < 1000000"),
        ("rank3", "price >= 1000000"),
    )
)

REFERENCE: dict[str, str] = {
    "q0": "SELECT auction, bidder, price, date_time, extra FROM bid",
    "q1": """
        SELECT auction, bidder, 0.908::DOUBLE * price AS price, date_time, extra FROM bid
    """,
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """
        SELECT p.name, p.city, p.state, a.id FROM auction AS a JOIN person AS p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
    """,
    "q4": f"""
        SELECT category, {_TEN_S.format("expires")} AS start, avg(final) AS mean
        FROM (
            SELECT a.id, a.category, a.expires, max(b.price) AS final
            FROM auction AS a JOIN bid AS b ON {_VALID} GROUP BY ALL
        ) GROUP BY ALL
    """,
    "q5": """
        WITH counts AS (
            SELECT auction, epoch_us(date_time) // 2000000 - k AS hop, count(*) AS num
            FROM bid, range(5) AS r(k) GROUP BY ALL
        )
        SELECT auction, make_timestamp(hop * 2000000) AS start, num FROM counts
        QUALIFY rank() OVER (PARTITION BY hop ORDER BY num DESC) = 1
    """,
    "q6": f"""
        WITH finals AS (
            SELECT a.id, a.seller, a.expires, max(b.price) AS final
            FROM auction AS a JOIN bid AS b ON {_VALID} GROUP BY ALL
        )
        SELECT seller, id, avg(final) OVER (
            PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW
        ) AS mean
        FROM finals
    """,
    "q7": f"""
        SELECT best.* FROM (
            SELECT {_TEN_S.format("date_time")} AS start, max_by(
                struct_pack(auction, price, bidder, date_time, extra),
                struct_pack(price, earlier := -epoch_us(date_time))) AS best
            FROM bid GROUP BY start
        )
    """,
    "q8": f"""
        SELECT DISTINCT p.id, p.name, {_TEN_S.format("p.date_time")} AS start
        FROM person AS p JOIN auction AS a
        ON p.id = a.seller AND {_TEN_S.format("p.date_time")} = {_TEN_S.format("a.date_time")}
    """,
    "q9": f"""
        SELECT a.*, b.bidder, b.price, b.date_time AS bid_time, b.extra AS bid_extra
        FROM auction AS a JOIN bid AS b ON {_VALID}
        QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time) = 1
    """,
    "q11": """
        WITH marked AS (
            SELECT bidder, epoch_us(date_time) AS t,
                coalesce(t - lag(t) OVER pauses >= 10000000, false) AS is_new
            FROM bid WINDOW pauses AS (PARTITION BY bidder ORDER BY date_time)
        ), numbered AS (
            SELECT bidder, t, count_if(is_new) OVER (PARTITION BY bidder ORDER BY t) AS session
            FROM marked
        )
        SELECT bidder, count(*) AS bids, make_timestamp(min(t)) AS start,
            make_timestamp(max(t) + 10000000) AS stop
        FROM numbered GROUP BY bidder, session
    """,
    "q12": f"""
        SELECT bidder, count(*) AS bids, {_TEN_S.format("date_time")} AS start,
            start + INTERVAL 10 SECOND AS stop
        FROM bid GROUP BY bidder, start
    """,
    "q13": """
        SELECT b.auction, b.bidder, b.price, b.date_time, t.value
        FROM bid AS b JOIN side AS t ON b.auction % 10000 = t.key
    """,
    "q14": """
        SELECT auction, bidder, 0.908::DOUBLE * price AS price,
            CASE WHEN hour(date_time) >= 8 AND hour(date_time) <= 18 THEN 'dayTime'
                 WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
                 ELSE 'otherTime' END AS bid_time_type,
            date_time, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bid
        WHERE 0.908::DOUBLE * price > 1000000 AND 0.908::DOUBLE * price < 50000000
    """,
    "q15": f"""
        SELECT date_trunc('day', date_time)::TIMESTAMP AS day, {_RANKS}, {_DISTINCT}
        FROM bid GROUP BY day
    """,
    "q16": f"""
        SELECT channel, date_trunc('day', date_time)::TIMESTAMP AS day,
            max(hour(date_time) * 100 + minute(date_time)) AS minute, {_RANKS}, {_DISTINCT}
        FROM bid GROUP BY channel, day
    """,
    "q17": f"""
        SELECT auction, date_trunc('day', date_time)::TIMESTAMP AS day, {_RANKS},
            min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price,
            sum(price)::BIGINT AS sum_price
        FROM bid GROUP BY auction, day
    """,
    "q18": f"""
        SELECT auction, bidder, price, channel, url, date_time, extra FROM bid
        QUALIFY row_number() OVER (
            PARTITION BY auction, bidder, {_TEN_S.format("date_time")} ORDER BY date_time DESC
        ) = 1
    """,
    "q19": f"""
        SELECT auction, bidder, price, channel, url, date_time, extra FROM bid
        QUALIFY rank() OVER (
            PARTITION BY auction, {_TEN_S.format("date_time")} ORDER BY price DESC
        ) <= 10
    """,
    "q20": """
        SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra,
            a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS auction_time,
            a.expires, a.seller, a.category, a.extra AS auction_extra
        FROM bid AS b JOIN auction AS a ON b.auction = a.id WHERE a.category = 10
    """,
    "q21": """
        SELECT auction, bidder, price, channel,
            CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
                WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
                ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bid
        WHERE regexp_matches(url, '(&|^)channel_id=([^&]*)')
            OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')
    """,
    "q22": """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1,
            split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
        FROM bid
    """,
}
