CREATE TABLE trades (
  trade_id BIGINT, symbol STRING, side STRING, price DECIMAL(10, 2), qty INT, trade_time TIMESTAMP(3),
  WATERMARK FOR trade_time AS trade_time - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/trades.csv', 'format' = 'csv');
CREATE TABLE quotes (
  symbol STRING, bid DECIMAL(10, 2), ask DECIMAL(10, 2), quote_time TIMESTAMP(3),
  WATERMARK FOR quote_time AS quote_time, PRIMARY KEY (symbol) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'path' = '${data}/quotes.csv', 'format' = 'csv');
CREATE TABLE users (user_id BIGINT, name STRING, tier STRING, country STRING, joined DATE)
WITH ('connector' = 'filesystem', 'path' = '${data}/users.csv', 'format' = 'csv');
CREATE TABLE visits (
  visit_id BIGINT, user_id BIGINT, page STRING, dwell_ms INT, visited_at TIMESTAMP(3),
  WATERMARK FOR visited_at AS visited_at - INTERVAL '30' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/visits.csv', 'format' = 'csv');
CREATE TABLE devices (
  dev STRING, `at` TIMESTAMP(3), reading ROW<temp DOUBLE, hum INT>, tags ARRAY<STRING>, hist ARRAY<INT>, meta STRING,
  WATERMARK FOR `at` AS `at`
) WITH ('connector' = 'filesystem', 'path' = '${data}/devices.jsonl', 'format' = 'json');
CREATE TABLE tickets (ticket_id STRING, status STRING, agent STRING, changed_at TIMESTAMP(3), WATERMARK FOR changed_at AS changed_at)
WITH ('connector' = 'filesystem', 'path' = '${data}/tickets.csv', 'format' = 'csv');
=== ohlc-per-window rows
SELECT symbol, window_start,
  FIRST_VALUE(price) AS open_price, MAX(price) AS high, MIN(price) AS low, LAST_VALUE(price) AS close_price, SUM(qty) AS volume
FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(trade_time), INTERVAL '15' MINUTES))
WHERE price IS NOT NULL
GROUP BY symbol, window_start, window_end;
--- duckdb
SELECT symbol, time_bucket(INTERVAL 15 MINUTE, trade_time) w, first(price ORDER BY trade_time), max(price), min(price), last(price ORDER BY trade_time), sum(qty) FROM trades WHERE price IS NOT NULL GROUP BY symbol, w
=== vwap-hop rows
SELECT symbol, window_start, window_end, ROUND(SUM(price * qty) / SUM(qty), 4) AS vwap
FROM TABLE(HOP(TABLE trades, DESCRIPTOR(trade_time), INTERVAL '10' MINUTES, INTERVAL '20' MINUTES))
WHERE price IS NOT NULL
GROUP BY symbol, window_start, window_end
HAVING COUNT(*) > 1;
--- duckdb
SELECT symbol, s, s + INTERVAL 20 MINUTE, round(sum(price * qty) / sum(qty), 4) FROM trades, (SELECT unnest(generate_series(TIMESTAMP '2025-03-03 09:00:00', TIMESTAMP '2025-03-03 10:00:00', INTERVAL 10 MINUTE)) s) WHERE price IS NOT NULL AND trade_time >= s AND trade_time < s + INTERVAL 20 MINUTE GROUP BY symbol, s HAVING count(*) > 1
=== cumulate-distinct rows
SELECT window_start, window_end, COUNT(DISTINCT user_id) AS uv, COUNT(*) AS pv
FROM TABLE(CUMULATE(DATA => TABLE visits, TIMECOL => DESCRIPTOR(visited_at), STEP => INTERVAL '15' MINUTES, SIZE => INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
--- duckdb
SELECT TIMESTAMP '2025-03-03 08:00:00', e, count(DISTINCT user_id), count(*) FROM visits, (SELECT unnest(generate_series(TIMESTAMP '2025-03-03 08:15:00', TIMESTAMP '2025-03-03 09:00:00', INTERVAL 15 MINUTE)) e) WHERE visited_at < e GROUP BY e
=== session-with-key rows
SELECT user_id, window_start, window_end, COUNT(*) AS clicks, MAX(dwell_ms) AS longest
FROM TABLE(SESSION(TABLE visits PARTITION BY user_id, DESCRIPTOR(visited_at), INTERVAL '20' MINUTES))
GROUP BY user_id, window_start, window_end;
--- duckdb
SELECT user_id, min(visited_at), max(visited_at) + INTERVAL 20 MINUTE, count(*), max(dwell_ms) FROM (SELECT *, sum(CASE WHEN visited_at - p <= INTERVAL 20 MINUTE THEN 0 ELSE 1 END) OVER (PARTITION BY user_id ORDER BY visited_at) g FROM (SELECT *, lag(visited_at) OVER (PARTITION BY user_id ORDER BY visited_at) p FROM visits)) GROUP BY user_id, g
=== latest-quote-at-trade rows
SELECT t.trade_id, t.symbol, t.price, q.bid, q.ask, (q.bid + q.ask) / 2 AS mid
FROM trades AS t
LEFT JOIN quotes FOR SYSTEM_TIME AS OF t.trade_time AS q ON t.symbol = q.symbol;
--- duckdb
SELECT trade_id, t.symbol, price, bid, ask, (bid + ask) / 2 FROM trades t ASOF LEFT JOIN quotes q ON t.symbol = q.symbol AND trade_time >= quote_time
=== interval-sessions-pay rows
SELECT c.user_id, c.visit_id AS cart, p.visit_id AS pay, TIMESTAMPDIFF(SECOND, c.visited_at, p.visited_at) AS secs
FROM visits c, visits p
WHERE c.user_id = p.user_id AND c.page = '/cart' AND p.page = '/pay'
  AND p.visited_at BETWEEN c.visited_at AND c.visited_at + INTERVAL '10' MINUTE;
--- duckdb
VALUES (1, 3, 4, 50)
=== change-of-status table
SELECT ticket_id, status, changed_at FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY ticket_id ORDER BY changed_at DESC) AS rn FROM tickets
) t WHERE rn = 1 AND status <> 'closed';
--- duckdb
SELECT ticket_id, status, changed_at FROM tickets QUALIFY row_number() OVER (PARTITION BY ticket_id ORDER BY changed_at DESC) = 1 AND status <> 'closed'
=== match-ticket-flow rows
SELECT *
FROM tickets
MATCH_RECOGNIZE (
  PARTITION BY ticket_id
  ORDER BY changed_at
  MEASURES
    O.changed_at AS opened, LAST(C.changed_at) AS closed, COUNT(A.status) AS hops
  ONE ROW PER MATCH
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN (O A* C)
  DEFINE O AS O.status = 'open', A AS A.status = 'assigned', C AS C.status = 'closed'
) AS m;
--- duckdb
VALUES ('T1', '2025-03-01T23:50:00', '2025-03-02T05:00:00', 1), ('T2', '2025-03-02T00:10:00', '2025-03-03T10:00:00', 0)
=== match-rising rows
SELECT T.symbol, T.first_price, T.last_price
FROM trades
  MATCH_RECOGNIZE (
    PARTITION BY symbol
    ORDER BY trade_time
    MEASURES FIRST(UP.price) AS first_price, LAST(UP.price) AS last_price
    AFTER MATCH SKIP TO NEXT ROW
    PATTERN (UP{2}) WITHIN INTERVAL '10' MINUTE
    DEFINE UP AS LAST(UP.price, 1) IS NULL OR UP.price > LAST(UP.price, 1)
  ) AS T;
--- duckdb
VALUES ('ACME', 10, 10.5), ('ACME', 10.2, 11), ('ZETA', 99.9, 101.1), ('OMNI', NULL, 7.25)
=== running-total-over rows
SELECT trade_id, symbol, qty,
  SUM(qty) OVER (PARTITION BY symbol ORDER BY trade_time ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running,
  COUNT(DISTINCT side) OVER (PARTITION BY symbol ORDER BY trade_time ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS sides,
  AVG(qty) OVER (PARTITION BY symbol ORDER BY trade_time ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS moving
FROM trades;
--- duckdb
SELECT trade_id, symbol, qty, sum(qty) OVER w, (SELECT count(DISTINCT side) FROM trades b WHERE b.symbol = trades.symbol AND b.trade_time <= trades.trade_time), CAST(floor(avg(qty) OVER (PARTITION BY symbol ORDER BY trade_time ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)) AS INT) FROM trades WINDOW w AS (PARTITION BY symbol ORDER BY trade_time)
=== lag-change rows
SELECT trade_id, price - LAG(price, 1) OVER (PARTITION BY symbol ORDER BY trade_time) AS diff,
  LAG(side, 2, 'none') OVER (PARTITION BY symbol ORDER BY trade_time) AS before2
FROM trades WHERE symbol <> 'OMNI';
--- duckdb
SELECT trade_id, price - lag(price) OVER (PARTITION BY symbol ORDER BY trade_time), lag(side, 2, 'none') OVER (PARTITION BY symbol ORDER BY trade_time) FROM trades WHERE symbol <> 'OMNI'
=== join-with-dimension table
CREATE VIEW paid AS SELECT user_id, COUNT(*) AS n FROM visits GROUP BY user_id;
SELECT u.name, COALESCE(p.n, 0) AS n, CASE u.tier WHEN 'gold' THEN 1 WHEN 'silver' THEN 2 ELSE 9 END AS pri
FROM users u LEFT JOIN paid p ON u.user_id = p.user_id;
--- duckdb
SELECT name, coalesce(n, 0), CASE tier WHEN 'gold' THEN 1 WHEN 'silver' THEN 2 ELSE 9 END FROM users LEFT JOIN (SELECT user_id, count(*) n FROM visits GROUP BY ALL) USING (user_id)
=== full-outer-windows rows
SELECT COALESCE(L.k, R.k) AS k, L.n AS buys, R.n AS sells, COALESCE(L.window_start, R.window_start) AS ws
FROM (SELECT symbol AS k, COUNT(*) AS n, window_start, window_end FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(trade_time), INTERVAL '15' MINUTES)) WHERE side = 'buy' GROUP BY symbol, window_start, window_end) L
FULL JOIN (SELECT symbol AS k, COUNT(*) AS n, window_start, window_end FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(trade_time), INTERVAL '15' MINUTES)) WHERE side = 'sell' GROUP BY symbol, window_start, window_end) R
ON L.k = R.k AND L.window_start = R.window_start AND L.window_end = R.window_end;
--- duckdb
WITH b AS (SELECT symbol k, time_bucket(INTERVAL 15 MINUTE, trade_time) w, count(*) n FROM trades WHERE side = 'buy' GROUP BY ALL), s AS (SELECT symbol k, time_bucket(INTERVAL 15 MINUTE, trade_time) w, count(*) n FROM trades WHERE side = 'sell' GROUP BY ALL) SELECT coalesce(b.k, s.k), b.n, s.n, coalesce(b.w, s.w) FROM b FULL JOIN s ON b.k = s.k AND b.w = s.w
=== unnest-array-of-devices rows
SELECT dev, tag, reading.temp AS temp FROM devices CROSS JOIN UNNEST(tags) AS t (tag) WHERE reading.temp > 0;
--- duckdb
SELECT dev, unnest(tags), reading.temp FROM devices WHERE reading.temp > 0
=== json-paths rows
SELECT dev, JSON_VALUE(meta, '$.fw') AS fw, JSON_VALUE(meta, '$.gps.lat' RETURNING DOUBLE) AS lat,
  JSON_EXISTS(meta, '$.gps') AS has_gps, JSON_VALUE(meta, 'lax $.nope' DEFAULT 'n/a' ON EMPTY) AS nope, meta IS JSON AS ok
FROM devices WHERE meta IS NOT NULL;
--- duckdb
VALUES ('d1', '1.2', 52.5, true, 'n/a', true), ('d2', NULL, NULL, false, 'n/a', true), ('d3', '2.0', NULL, false, 'n/a', true)
=== json-query-wrapper rows
SELECT dev, JSON_QUERY(meta, '$.ports') AS ports, JSON_QUERY(meta, '$.fw' WITH WRAPPER) AS w, JSON_QUERY(meta, 'lax $.none' EMPTY ARRAY ON EMPTY) AS e FROM devices WHERE dev = 'd3';
--- duckdb
VALUES ('d3', '[22]', '["2.0"]', '[]')
=== string-functions-again rows
SELECT user_id, UPPER(name) AS u, CHAR_LENGTH(name) AS n, SPLIT_INDEX(name, ' ', 1) AS last_name, LPAD(CAST(user_id AS STRING), 4, '0') AS padded,
  OVERLAY(name PLACING '***' FROM 2 FOR 2) AS masked, POSITION('i' IN name) AS pos, INITCAP(LOWER(name)) AS ini, REPEAT('ab', 2) AS r2, REVERSE(name) AS rev, TRIM(LEADING 'A' FROM name) AS tr
FROM users;
--- duckdb
SELECT user_id, upper(name), length(name), split_part(name, ' ', 2), lpad(user_id::VARCHAR, 4, '0'), name[1] || '***' || name[4:], position('i' IN name), name, 'abab', reverse(name), ltrim(name, 'A') FROM users
=== time-functions-again rows
SELECT trade_id, DATE_FORMAT(trade_time, 'yyyy-MM-dd HH:mm') AS f, HOUR(trade_time) AS h, EXTRACT(DOW FROM trade_time) AS d, CEIL(trade_time TO HOUR) AS c,
  TIMESTAMPADD(MINUTE, 90, trade_time) AS later, CAST(trade_time AS DATE) AS day, UNIX_TIMESTAMP(DATE_FORMAT(trade_time, 'yyyy-MM-dd HH:mm:ss')) AS epoch, QUARTER(DATE '2025-03-03') AS q
FROM trades WHERE trade_id < 4;
--- duckdb
SELECT trade_id, strftime(trade_time, '%Y-%m-%d %H:%M'), 9, 2, TIMESTAMP '2025-03-03 10:00:00', trade_time + INTERVAL 90 MINUTE, CAST(trade_time AS DATE), epoch(trade_time), 1 FROM trades WHERE trade_id < 4
=== array-functions-again rows
SELECT dev, CARDINALITY(tags) AS n, ARRAY_CONTAINS(tags, 'new') AS isnew, ARRAY_DISTINCT(hist) AS dis, ARRAY_MAX(hist) AS mx, ARRAY_JOIN(tags, '+') AS j, ARRAY_REVERSE(hist) AS rev, ARRAY_SLICE(hist, 1, 2) AS sl, ARRAY_SORT(hist) AS so, hist[1] AS first
FROM devices WHERE hist IS NOT NULL;
--- duckdb
VALUES ('d1', 2, true, [4, 1, 3], 4, 'attic+new', [3, 1, 4], [4, 1], [1, 3, 4], 4), ('d2', 0, false, [7], 7, '', [7], [7], [7], 7), ('d3', 3, true, [2], 2, 'roof+hot+new', [2, 2], [2, 2], [2, 2], 2)
=== statement-set-two sink
CREATE TABLE buys (symbol STRING, qty INT) WITH ('connector' = 'filesystem', 'path' = '${out}/buys', 'format' = 'parquet');
CREATE TABLE sells (symbol STRING, qty INT) WITH ('connector' = 'filesystem', 'path' = '${out}/sells', 'format' = 'parquet');
EXECUTE STATEMENT SET
BEGIN
  INSERT INTO buys SELECT symbol, qty FROM trades WHERE side = 'buy' AND qty > 50;
  INSERT INTO sells SELECT symbol, qty FROM trades WHERE side = 'sell' AND qty < 20;
END;
--- duckdb
VALUES ('buys', 'ACME', 100), ('buys', 'ACME', 60), ('sells', 'ZETA', 5), ('sells', 'ACME', 10)
=== top-n-per-window rows
SELECT window_start, symbol, total FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC) AS rn FROM (
    SELECT window_start, window_end, symbol, SUM(qty) AS total
    FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(trade_time), INTERVAL '15' MINUTES)) GROUP BY window_start, window_end, symbol)
) WHERE rn = 1;
--- duckdb
SELECT w, symbol, t FROM (SELECT time_bucket(INTERVAL 15 MINUTE, trade_time) w, symbol, sum(qty) t FROM trades GROUP BY ALL) QUALIFY row_number() OVER (PARTITION BY w ORDER BY t DESC) = 1
=== grouping-sets-named table
SELECT symbol, side, COUNT(*) AS n, GROUPING(symbol) AS gs FROM trades GROUP BY GROUPING SETS ((symbol), (side), ());
--- duckdb
SELECT symbol, side, count(*), grouping(symbol) FROM trades GROUP BY GROUPING SETS ((symbol), (side), ())
=== listagg-ordered table
SELECT symbol, LISTAGG(side, '|') AS sides, COLLECT(qty) IS NOT NULL AS c FROM trades GROUP BY symbol;
--- duckdb
SELECT symbol, string_agg(side, '|' ORDER BY trade_time), true FROM trades GROUP BY symbol
=== try-cast-and-nulls rows
SELECT visit_id, TRY_CAST(SUBSTRING(page FROM 2) AS INT) AS n, IFNULL(dwell_ms, -1) AS d, NULLIF(page, '/home') AS p, GREATEST(dwell_ms, 1000) AS g, IF(dwell_ms > 1000, 'slow', 'fast') AS s, page LIKE '/c%' AS l, page SIMILAR TO '/(pay|cart)' AS sim FROM visits;
--- duckdb
SELECT visit_id, NULL, coalesce(dwell_ms, -1), nullif(page, '/home'), CASE WHEN dwell_ms IS NULL THEN NULL ELSE greatest(dwell_ms, 1000) END, if(dwell_ms > 1000, 'slow', 'fast'), page LIKE '/c%', page SIMILAR TO '/(pay|cart)' FROM visits
=== computed-column-and-partition rows
CREATE TEMPORARY TABLE v2 (
  visit_id BIGINT, page STRING, visited_at TIMESTAMP(3), secs AS dwell_ms / 1000, dwell_ms INT, `day` AS DATE_FORMAT(visited_at, 'yyyyMMdd'),
  WATERMARK FOR visited_at AS visited_at - INTERVAL '1' MINUTE
) COMMENT 'visits again' WITH ('connector' = 'filesystem', 'path' = '${data}/visits.csv', 'format' = 'csv');
SELECT visit_id, secs, `day` FROM v2 WHERE secs >= 3;
--- duckdb
VALUES (3, 4, '20250303'), (9, 3, '20250303')
=== window-dedupe-first rows
SELECT user_id, page, window_start FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, user_id ORDER BY visited_at ASC) AS rownum
  FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(visited_at), INTERVAL '30' MINUTES))
) WHERE rownum <= 1;
--- duckdb
SELECT user_id, page, time_bucket(INTERVAL 30 MINUTE, visited_at) w FROM visits QUALIFY row_number() OVER (PARTITION BY user_id, w ORDER BY visited_at) = 1
