CREATE TABLE trades (trade_id INT, symbol STRING, side STRING, price DOUBLE, qty INT, trade_time TIMESTAMP, WATERMARK FOR trade_time AS trade_time - INTERVAL 5 SECONDS) USING csv OPTIONS (path '${data}/trades.csv', header 'true');
CREATE TABLE quotes (symbol STRING, bid DOUBLE, ask DOUBLE, quote_time TIMESTAMP, WATERMARK FOR quote_time AS quote_time) USING csv OPTIONS (path '${data}/quotes.csv', header 'true');
CREATE TABLE users (user_id INT, name STRING, tier STRING, country STRING, joined DATE) USING csv LOCATION '${data}/users.csv';
CREATE TABLE visits (visit_id INT, user_id INT, page STRING, dwell_ms INT, visited_at TIMESTAMP, WATERMARK FOR visited_at AS visited_at - INTERVAL 30 SECONDS) USING csv OPTIONS (path '${data}/visits.csv', header 'true');
CREATE TABLE devices (dev STRING, at TIMESTAMP, reading STRUCT<temp: DOUBLE, hum: INT>, tags ARRAY<STRING>, hist ARRAY<INT>, meta STRING, WATERMARK FOR at AS at) USING json OPTIONS (path '${data}/devices.jsonl');
CREATE TABLE tickets (ticket_id STRING, status STRING, agent STRING, changed_at TIMESTAMP, WATERMARK FOR changed_at AS changed_at) USING csv OPTIONS (path '${data}/tickets.csv', header 'true');
=== window-aggregate rows
SELECT window(trade_time, '15 minutes') AS w, symbol, sum(qty) AS total FROM trades GROUP BY window(trade_time, '15 minutes'), symbol;
--- duckdb
SELECT {'start': w, 'end': w + INTERVAL 15 MINUTE}, symbol, t FROM (SELECT time_bucket(INTERVAL 15 MINUTE, trade_time) w, symbol, sum(qty) t FROM trades GROUP BY ALL)
=== window-slide-start rows
SELECT window.start AS s, count(*) AS n FROM visits GROUP BY window(visited_at, '20 minutes', '20 minutes', '5 minutes');
--- duckdb
SELECT time_bucket(INTERVAL 20 MINUTE, visited_at, TIMESTAMP '2025-03-03 00:05:00') w, count(*) FROM visits GROUP BY w
=== session-gap rows
SELECT user_id, session_window.start AS s, session_window.end AS e, count(*) AS n FROM visits GROUP BY session_window(visited_at, '15 minutes'), user_id;
--- duckdb
SELECT user_id, min(visited_at), max(visited_at) + INTERVAL 15 MINUTE, count(*) FROM (SELECT *, sum(CASE WHEN visited_at - p <= INTERVAL 15 MINUTE THEN 0 ELSE 1 END) OVER (PARTITION BY user_id ORDER BY visited_at) g FROM (SELECT *, lag(visited_at) OVER (PARTITION BY user_id ORDER BY visited_at) p FROM visits)) GROUP BY user_id, g
=== static-join-agg table
SELECT u.tier, count(*) AS n, round(avg(v.dwell_ms), 2) AS mean FROM visits v JOIN users u USING (user_id) GROUP BY u.tier;
--- duckdb
SELECT tier, count(*), round(avg(dwell_ms), 2) FROM visits JOIN users USING (user_id) GROUP BY tier
=== impressions-clicks rows
SELECT a.visit_id AS a, b.visit_id AS b FROM visits a JOIN visits b ON a.user_id = b.user_id AND a.page = '/home' AND b.page = '/pay' AND b.visited_at >= a.visited_at AND b.visited_at <= a.visited_at + interval 1 hour;
--- duckdb
SELECT a.visit_id, b.visit_id FROM visits a JOIN visits b ON a.user_id = b.user_id AND a.page = '/home' AND b.page = '/pay' AND b.visited_at >= a.visited_at AND b.visited_at <= a.visited_at + INTERVAL 1 HOUR
=== percentile-family table
SELECT symbol, percentile_cont(0.5) WITHIN GROUP (ORDER BY qty) AS med, median(qty) AS m2, mode(side) AS md, max_by(trade_id, qty) AS mb, first(side) AS f, any_value(symbol) AS av FROM trades WHERE symbol = 'ACME' GROUP BY symbol;
--- duckdb
VALUES ('ACME', 40, 40, 'buy', 1, 'buy', 'ACME')
=== collect-and-sort table
SELECT symbol, sort_array(collect_set(side)) AS s, array_sort(collect_list(qty)) AS q, size(collect_list(price)) AS n FROM trades GROUP BY symbol;
--- duckdb
SELECT symbol, list_sort(list(DISTINCT side)), list_sort(list(qty)), count(price) FROM trades GROUP BY symbol
=== from-json-struct rows
SELECT dev, from_json(meta, 'fw STRING, ports ARRAY<INT>').ports AS ports, from_json(meta, 'STRUCT<fw: STRING>').fw AS fw FROM devices WHERE meta IS NOT NULL;
--- duckdb
VALUES ('d1', [80, 443], '1.2'), ('d2', [], NULL), ('d3', [22], '2.0')
=== get-json-object rows
SELECT dev, get_json_object(meta, '$.gps.lat') AS lat, get_json_object(meta, '$.ports[0]') AS p0, json_array_length(get_json_object(meta, '$.ports')) AS n FROM devices WHERE meta IS NOT NULL;
--- duckdb
VALUES ('d1', '52.5', '80', 2), ('d2', NULL, NULL, 0), ('d3', NULL, '22', 1)
=== explode-outer rows
SELECT dev, t.tag FROM devices LATERAL VIEW OUTER explode(tags) t AS tag;
--- duckdb
VALUES ('d1', 'attic'), ('d1', 'new'), ('d2', NULL), ('d1', 'attic'), ('d3', 'roof'), ('d3', 'hot'), ('d3', 'new')
=== posexplode-in-select rows
SELECT dev, posexplode(hist) AS (i, h) FROM devices WHERE dev <> 'd3';
--- duckdb
VALUES ('d1', 0, 4), ('d1', 1, 1), ('d1', 2, 3), ('d2', 0, 7)
=== higher-order-again rows
SELECT dev, transform(hist, (x, i) -> x + i) AS t, exists(hist, x -> x > 6) AS e, forall(hist, x -> x > 0) AS f, aggregate(hist, 0, (acc, x) -> acc + x, acc -> acc * 10) AS a, zip_with(hist, hist, (a, b) -> a * b) AS z, filter(tags, t -> t LIKE 'n%') AS n FROM devices WHERE hist IS NOT NULL;
--- duckdb
VALUES ('d1', [4, 2, 5], false, true, 80, [16, 1, 9], ['new']), ('d2', [7], true, true, 70, [49], []), ('d3', [2, 3], false, true, 40, [4, 4], ['new'])
=== map-builtins-again rows
SELECT visit_id, map('p', page, 'k', 'v')['p'] AS p, map_keys(map('a', 1, 'b', 2)) AS k, element_at(map('a', 1), 'a') AS e, str_to_map('a:1,b:2', ',', ':')['b'] AS s, map_from_arrays(array('x'), array(visit_id))['x'] AS m FROM visits WHERE visit_id <= 2;
--- duckdb
VALUES (1, '/home', ['a', 'b'], 1, '2', 1), (2, '/home', ['a', 'b'], 1, '2', 2)
=== date-functions-again rows
SELECT user_id, add_months(joined, 1) AS am, last_day(joined) AS ld, date_add(joined, 5) AS da, datediff(DATE '2025-03-01', joined) AS dd, months_between(DATE '2025-03-31', joined) AS mb, trunc(joined, 'YEAR') AS ty, date_format(joined, 'yyyy/MM') AS df, year(joined) AS y, dayofweek(joined) AS dow, weekofyear(joined) AS w, next_day(joined, 'MON') AS nd, make_date(2025, user_id, 1) AS md FROM users;
--- duckdb
VALUES (1, '2024-02-29', '2024-01-31', '2024-02-05', 395, 14, '2024-01-01', '2024/01', 2024, 4, 5, '2024-02-05', '2025-01-01'), (2, '2024-03-29', '2024-02-29', '2024-03-05', 366, 13, '2024-01-01', '2024/02', 2024, 5, 9, '2024-03-04', '2025-02-01'), (3, '2025-01-31', '2024-12-31', '2025-01-05', 60, 3, '2024-01-01', '2024/12', 2024, 3, 1, '2025-01-06', '2025-03-01'), (4, '2025-03-28', '2025-02-28', '2025-03-05', 1, 1, '2025-01-01', '2025/02', 2025, 6, 9, '2025-03-03', '2025-04-01')
=== string-functions-again rows
SELECT user_id, concat_ws('-', name, tier) AS c, regexp_extract(name, '(\\w+) (\\w+)', 2) AS r, translate(name, 'aeiou', '12345') AS t, instr(name, 'i') AS i, substring_index(name, ' ', 1) AS si, lpad(user_id, 3, '0') AS lp, initcap('hello wORLD') AS ic, levenshtein(name, 'Bo Chen') AS lv, soundex('Robert') AS sx, ascii(name) AS a, format_string('%s:%05d', name, user_id) AS fs, split(name, ' ')[0] AS sp, rlike(name, '^A') AS rl FROM users WHERE user_id < 3;
--- duckdb
VALUES (1, 'Ana Silva-gold', 'Silva', 'An1 S3lv1', 6, 'Ana', '001', 'Hello World', 8, 'R163', 65, 'Ana Silva:00001', 'Ana', true), (2, 'Bo Chen-silver', 'Chen', 'B4 Ch2n', 0, 'Bo', '002', 'Hello World', 0, 'R163', 66, 'Bo Chen:00002', 'Bo', false)
=== lead-lag-named table
SELECT trade_id, lead(price, 1) OVER w AS nxt, lag(price) OVER w AS prv, first_value(price) OVER w AS fv FROM trades WHERE symbol = 'ACME' WINDOW w AS (PARTITION BY symbol ORDER BY trade_time);
--- duckdb
SELECT trade_id, lead(price, 1) OVER w, lag(price) OVER w, first_value(price) OVER w FROM trades WHERE symbol = 'ACME' WINDOW w AS (PARTITION BY symbol ORDER BY trade_time)
=== pivot-sides table
SELECT * FROM (SELECT symbol, side, qty FROM trades) PIVOT (sum(qty) FOR side IN ('buy' AS b, 'sell' AS s));
--- duckdb
SELECT symbol, sum(qty) FILTER (WHERE side = 'buy'), sum(qty) FILTER (WHERE side = 'sell') FROM trades GROUP BY symbol
=== unpivot-quotes rows
SELECT * FROM (SELECT symbol, bid, ask FROM quotes) UNPIVOT (value FOR kind IN (bid, ask));
--- duckdb
SELECT symbol, 'bid', bid FROM quotes UNION ALL SELECT symbol, 'ask', ask FROM quotes
=== qualify-top table
SELECT symbol, trade_id FROM trades QUALIFY row_number() OVER (PARTITION BY symbol ORDER BY qty DESC) = 1;
--- duckdb
SELECT symbol, trade_id FROM trades QUALIFY row_number() OVER (PARTITION BY symbol ORDER BY qty DESC) = 1
=== cube-with-grouping table
SELECT symbol, side, sum(qty) AS s, grouping_id(symbol, side) AS g FROM trades GROUP BY CUBE (symbol, side);
--- duckdb
SELECT symbol, side, sum(qty), grouping(symbol, side) FROM trades GROUP BY CUBE (symbol, side)
=== except-minus table
SELECT user_id FROM users MINUS SELECT user_id FROM visits;
--- duckdb
VALUES (4)
=== in-and-exists table
SELECT name FROM users u WHERE EXISTS (SELECT 1 FROM visits v WHERE v.user_id = u.user_id AND v.page = '/pay') AND user_id NOT IN (SELECT user_id FROM visits WHERE page = '/help');
--- duckdb
VALUES ('Ana Silva'), ('Cid Roy')
=== conditional-aggregates table
SELECT count_if(price > 10) AS a, sum(IF(side = 'buy', qty, 0)) AS b, bool_and(qty > 0) AS c, some(qty > 90) AS d, avg(price) FILTER (WHERE symbol = 'ZETA') AS e, approx_count_distinct(symbol) AS f, stddev_pop(qty) AS g, corr(price, qty) IS NOT NULL AS h, try_sum(qty) AS i FROM trades;
--- duckdb
SELECT count_if(price > 10), sum(qty) FILTER (WHERE side = 'buy'), true, true, avg(price) FILTER (WHERE symbol = 'ZETA'), 3, stddev_pop(qty), true, sum(qty) FROM trades
=== cte-chain-with-limit table
WITH per AS (SELECT symbol, sum(qty) AS q FROM trades GROUP BY symbol), ranked AS (SELECT *, dense_rank() OVER (ORDER BY q DESC) AS r FROM per)
SELECT symbol, q, r FROM ranked WHERE r <= 2 ORDER BY r LIMIT 5;
--- duckdb
VALUES ('ACME', 235, 1), ('OMNI', 50, 2)
=== hash-and-encode rows
SELECT user_id, md5(name) AS m, sha2(name, 256) AS s, hex(user_id + 254) AS h, base64(encode(name, 'UTF-8')) AS b, conv('ff', 16, 10) AS c, bin(5) AS bi, crc32('a') AS cr FROM users WHERE user_id = 1;
--- duckdb
SELECT user_id, md5(name), sha256(name), 'FF', base64(encode(name)), '255', '101', 3904355907 FROM users WHERE user_id = 1
=== named-struct-dot rows
SELECT named_struct('a', visit_id, 'b', page).b AS b, struct(visit_id, page).visit_id AS c, coalesce(dwell_ms, 0) div 1000 AS d, dwell_ms % 1000 AS m, -visit_id AS n, visit_id IS DISTINCT FROM 1 AS x, page <=> NULL AS y FROM visits WHERE visit_id BETWEEN 4 AND 6;
--- duckdb
VALUES ('/pay', 4, 0, 800, -4, true, false), ('/home', 5, 0, NULL, -5, true, false), ('/help', 6, 2, 600, -6, true, false)
=== pipe-aggregate table
FROM trades |> WHERE side = 'buy' |> AGGREGATE sum(qty) AS q GROUP BY symbol;
--- duckdb
SELECT symbol, sum(qty) FROM trades WHERE side = 'buy' GROUP BY symbol
