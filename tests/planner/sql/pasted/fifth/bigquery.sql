CREATE TABLE trades (trade_id int, symbol string, side string, price number(10, 2), qty int, trade_time timestamp, WATERMARK FOR trade_time AS trade_time) WITH (path = '${data}/trades.csv');
CREATE TABLE quotes (symbol string, bid double, ask double, quote_time timestamp, WATERMARK FOR quote_time AS quote_time) WITH (path = '${data}/quotes.csv');
CREATE TABLE visits (visit_id int, user_id int, page string, dwell_ms int, visited_at timestamp, WATERMARK FOR visited_at AS visited_at) WITH (path = '${data}/visits.csv');
CREATE TABLE devices (dev string, at timestamp, tags ARRAY<string>, hist ARRAY<int>, meta string, WATERMARK FOR at AS at) WITH (path = '${data}/devices.jsonl');
CREATE TABLE tickets (ticket_id string, status string, agent string, changed_at timestamp, WATERMARK FOR changed_at AS changed_at) WITH (path = '${data}/tickets.csv');
=== timestamp-trunc table
SELECT TIMESTAMP_TRUNC(trade_time, HOUR) AS h, COUNTIF(side = 'buy') AS b, SAFE_DIVIDE(SUM(qty), COUNT(*)) AS a, APPROX_COUNT_DISTINCT(symbol) AS d FROM trades GROUP BY 1;
--- duckdb
VALUES ('2025-03-03T09:00:00', 6, 30.3, 3)
=== array-agg-offset table
SELECT user_id, ARRAY_AGG(page ORDER BY visited_at DESC LIMIT 1)[OFFSET(0)] AS last_page, STRING_AGG(page, '>' ORDER BY visited_at) AS path FROM visits GROUP BY user_id;
--- duckdb
SELECT user_id, last(page ORDER BY visited_at), string_agg(page, '>' ORDER BY visited_at) FROM visits GROUP BY user_id
=== timestamp-diff rows
SELECT visit_id, TIMESTAMP_DIFF(visited_at, TIMESTAMP '2025-03-03 08:00:00', MINUTE) AS m, FORMAT_TIMESTAMP('%H:%M', visited_at) AS f, EXTRACT(DAYOFWEEK FROM visited_at) AS d, TIMESTAMP_ADD(visited_at, INTERVAL 10 MINUTE) AS a, UNIX_SECONDS(visited_at) AS u, SAFE_CAST(page AS INT64) AS s, REGEXP_CONTAINS(page, r'^/p') AS r, STARTS_WITH(page, '/h') AS sw FROM visits WHERE visit_id IN (3, 4);
--- duckdb
VALUES (3, 1, '08:01', 2, '2025-03-03T08:11:10', 1740988870, NULL, false, false), (4, 2, '08:02', 2, '2025-03-03T08:12:00', 1740988920, NULL, true, false)
=== unnest-with-offset rows
SELECT dev, tag, pos FROM devices, UNNEST(tags) AS tag WITH OFFSET AS pos;
--- duckdb
VALUES ('d1', 'attic', 0), ('d1', 'new', 1), ('d1', 'attic', 0), ('d3', 'roof', 0), ('d3', 'hot', 1), ('d3', 'new', 2)
=== select-except-qualify table
SELECT * EXCEPT (agent) FROM tickets WHERE TRUE QUALIFY RANK() OVER (PARTITION BY ticket_id ORDER BY changed_at) = 1;
--- duckdb
SELECT * EXCLUDE (agent) FROM tickets QUALIFY rank() OVER (PARTITION BY ticket_id ORDER BY changed_at) = 1
=== json-value rows
SELECT dev, JSON_VALUE(meta, '$.fw') AS fw, ARRAY_LENGTH(tags) AS n, GENERATE_ARRAY(1, 3) AS g, ARRAY_TO_STRING(tags, ',') AS s, IF('new' IN UNNEST(tags), 1, 0) AS isnew FROM devices WHERE hist IS NOT NULL;
--- duckdb
VALUES ('d1', '1.2', 2, [1, 2, 3], 'attic,new', 1), ('d2', NULL, 0, [1, 2, 3], '', 0), ('d3', '2.0', 3, [1, 2, 3], 'roof,hot,new', 1)
=== last-value-ignore-nulls rows
SELECT trade_id, LAST_VALUE(price IGNORE NULLS) OVER (PARTITION BY symbol ORDER BY trade_time ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS lp, COALESCE(SUM(qty) OVER (PARTITION BY symbol ORDER BY trade_time ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before FROM trades;
--- duckdb
SELECT trade_id, last_value(price IGNORE NULLS) OVER w, coalesce(sum(qty) OVER (PARTITION BY symbol ORDER BY trade_time ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) FROM trades WINDOW w AS (PARTITION BY symbol ORDER BY trade_time ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
