CREATE TABLE orders (order_id INT PRIMARY KEY, customer_id INT, product VARCHAR, amount NUMERIC, currency VARCHAR, order_time TIMESTAMP,
  WATERMARK FOR order_time AS order_time - INTERVAL '10 seconds') WITH (connector = 'filesystem', path = '${data}/orders.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE shipments (id INT, order_id INT, ship_time TIMESTAMP, WATERMARK FOR ship_time AS ship_time - INTERVAL '1 second') WITH (connector = 'filesystem', path = '${data}/shipments.csv') FORMAT PLAIN ENCODE CSV;
CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR, city VARCHAR, signup DATE) WITH (connector = 'filesystem', path = '${data}/customers.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE readings (sensor VARCHAR, temp DOUBLE PRECISION, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (connector = 'filesystem', path = '${data}/readings.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE events (id INT, ts TIMESTAMP, tags VARCHAR[], nums INT[], attrs JSONB, who STRUCT<name VARCHAR, age INT>, line VARCHAR, WATERMARK FOR ts AS ts) WITH (connector = 'filesystem', path = '${data}/events.jsonl') FORMAT PLAIN ENCODE JSON;
=== tumble-docs rows
SELECT order_id, product, window_start, window_end
FROM TUMBLE (orders, order_time, INTERVAL '10 MINUTES') WHERE customer_id = 7;
--- duckdb
SELECT order_id, product, w, w + INTERVAL 10 MINUTE FROM (SELECT *, time_bucket(INTERVAL 10 MINUTE, order_time) w FROM orders WHERE customer_id = 7)
=== tumble-agg-mv rows
CREATE MATERIALIZED VIEW avg_temp AS
SELECT sensor, window_start, AVG(temp) AS avg_temp, MAX(temp) - MIN(temp) AS spread
FROM TUMBLE(readings, ts, INTERVAL '5 MINUTES')
GROUP BY sensor, window_start;
SELECT * FROM avg_temp WHERE spread > 0;
--- duckdb
SELECT * FROM (SELECT sensor, time_bucket(INTERVAL 5 MINUTE, ts) w, avg(temp), max(temp) - min(temp) d FROM readings GROUP BY ALL) WHERE d > 0
=== hop-window-agg rows
SELECT window_start, window_end, count(order_id) AS n, sum(amount) AS sum
FROM HOP (orders, order_time, INTERVAL '5 MINUTES', INTERVAL '10 MINUTES')
GROUP BY window_start, window_end;
--- duckdb
SELECT s, s + INTERVAL 10 MINUTE, count(*), sum(amount) FROM orders, (SELECT unnest(generate_series(TIMESTAMP '2024-05-01 09:50:00', TIMESTAMP '2024-05-01 10:30:00', INTERVAL 5 MINUTE)) s) WHERE order_time >= s AND order_time < s + INTERVAL 10 MINUTE GROUP BY s
=== session-frame-docs rows
SELECT sensor, ts,
  first_value(ts) OVER (PARTITION BY sensor ORDER BY ts SESSION WITH GAP INTERVAL '2 minutes') AS window_start,
  last_value(ts) OVER (PARTITION BY sensor ORDER BY ts SESSION WITH GAP INTERVAL '2 minutes') AS window_end
FROM readings;
--- duckdb
VALUES ('a', '2024-05-01T10:00:00', '2024-05-01T10:00:00', '2024-05-01T10:02:00'), ('a', '2024-05-01T10:00:30', '2024-05-01T10:00:00', '2024-05-01T10:02:00'), ('a', '2024-05-01T10:02:00', '2024-05-01T10:00:00', '2024-05-01T10:02:00'), ('a', '2024-05-01T10:06:00', '2024-05-01T10:06:00', '2024-05-01T10:06:00'), ('b', '2024-05-01T10:00:40', '2024-05-01T10:00:40', '2024-05-01T10:00:40'), ('b', '2024-05-01T10:03:10', '2024-05-01T10:03:10', '2024-05-01T10:03:10'), ('b', '2024-05-01T10:06:30', '2024-05-01T10:06:30', '2024-05-01T10:06:30')
=== window-join-docs rows
SELECT o.order_id, s.id, o.window_start
FROM TUMBLE(orders, order_time, INTERVAL '10 MINUTES') AS o
JOIN TUMBLE(shipments, ship_time, INTERVAL '10 MINUTES') AS s
ON o.order_id = s.order_id AND o.window_start = s.window_start;
--- duckdb
VALUES (3, 103, '2024-05-01T10:00:00'), (5, 104, '2024-05-01T10:10:00')
=== interval-join-docs rows
CREATE MATERIALIZED VIEW interval_join AS
SELECT s1.order_id AS order_id, s2.id AS shipment
FROM orders s1 JOIN shipments s2
ON s1.order_id = s2.order_id AND s2.ship_time BETWEEN s1.order_time AND s1.order_time + INTERVAL '1 hour';
SELECT * FROM interval_join;
--- duckdb
VALUES (1, 101), (3, 103), (5, 104)
=== asof-docs table
SELECT o.order_id, r.temp FROM orders o ASOF LEFT JOIN readings r ON r.sensor = 'a' AND o.order_time >= r.ts WHERE o.order_id < 5;
--- duckdb
VALUES (1, 20), (2, 22), (3, 25), (4, 21)
=== process-time-temporal rows
SELECT o.order_id, c.name FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF PROCTIME() AS c ON o.customer_id = c.id;
--- duckdb
SELECT order_id, name FROM orders JOIN customers ON customer_id = id
=== top-n-rank table
SELECT product, order_id, rank FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY product ORDER BY amount DESC NULLS LAST, order_id) AS rank FROM orders
) WHERE rank <= 1;
--- duckdb
VALUES ('apple', 1, 1), ('pear', 2, 1), ('fig', 3, 1)
=== filter-order-agg table
SELECT customer_id, count(*) FILTER (WHERE product = 'apple') AS apples, string_agg(product, ',' ORDER BY order_id DESC) AS ps, array_agg(order_id ORDER BY order_id DESC) AS ids, bool_and(amount > 1) AS ba, mode() WITHIN GROUP (ORDER BY product) AS m, percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) AS pc
FROM orders GROUP BY customer_id;
--- duckdb
SELECT customer_id, count(*) FILTER (WHERE product = 'apple'), string_agg(product, ',' ORDER BY order_id DESC), array_agg(order_id ORDER BY order_id DESC), bool_and(amount > 1), min(product), percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM orders GROUP BY customer_id
=== jsonb-ops rows
SELECT id, attrs ->> 'k' AS k, attrs -> 'list' -> 0 AS l0, (attrs -> 'o' ->> 'x') AS x, attrs #>> '{o,x}' AS p, attrs ? 'o' AS h, jsonb_typeof(attrs -> 'list') AS ty, jsonb_array_length(attrs -> 'list') AS n, attrs @> '{"k": 1}' AS ct, jsonb_build_object('a', id) AS bo, jsonb_path_exists(attrs, '$.o.x') AS pe, jsonb_strip_nulls('{"a":null,"b":1}'::jsonb) AS sn
FROM events WHERE attrs IS NOT NULL;
--- duckdb
VALUES (1, '1', '1', 'deep', 'deep', true, 'array', 3, true, '{"a":1}', true, '{"b":1}'), (2, 'two', NULL, NULL, NULL, false, 'array', 0, false, '{"a":2}', false, '{"b":1}')
=== unnest-from-table rows
SELECT id, tag FROM events, unnest(tags) AS tag;
--- duckdb
VALUES (1, 'a'), (1, 'b'), (3, 'b'), (3, 'c'), (3, 'b')
=== array-fns rows
SELECT id, array_length(nums) AS n, nums[1] AS f, nums[2:3] AS s, array_append(nums, 9) AS a, array_cat(nums, ARRAY[7]) AS c, array_to_string(tags, '+') AS t, 'a' = ANY(tags) AS has, array_sum(nums) AS su, array_sort(nums) AS so, array_max(nums) AS mx, array_distinct(ARRAY['x','x']) AS d, cardinality(tags) AS ca, array_position(nums, 2) AS po, array_remove(nums, 1) AS ar, trim_array(nums, 1) AS ta, string_to_array('a,b', ',') AS sa
FROM events WHERE id = 1;
--- duckdb
VALUES (1, 3, 3, [1, 2], [3, 1, 2, 9], [3, 1, 2, 7], 'a+b', true, 6, [1, 2, 3], 3, ['x'], 2, 3, [3, 2], [3, 1], ['a', 'b'])
=== time-fns rows
SELECT order_id, date_trunc('minute', order_time) AS dt, extract(epoch FROM order_time)::bigint AS ep, to_char(order_time, 'YYYY-MM-DD HH24:MI:SS') AS tc, to_timestamp(1714557600) AT TIME ZONE 'UTC' AS tt, order_time + interval '1 month' AS m, date_part('hour', order_time) AS h, make_date(2024, 2, 29) AS md, to_date('2022-04-08', 'YYYY-MM-DD') AS td, '2024-01-01'::date + 3 AS d3, (date '2024-03-01' - date '2024-02-01') AS dd, order_time::date AS od, make_timestamp(2024, 1, 2, 3, 4, 5) AS mt, order_time AT TIME ZONE 'Asia/Tokyo' AS tk
FROM orders WHERE order_id = 2;
--- duckdb
VALUES (2, '2024-05-01T10:01:00', 1714557690, '2024-05-01 10:01:30', '2024-05-01T10:00:00', '2024-06-01T10:01:30', 10, '2024-02-29', '2022-04-08', '2024-01-04', 29, '2024-05-01', '2024-01-02T03:04:05', '2024-05-01T01:01:30')
=== string-fns rows
SELECT id, split_part(line, ' ', 2) AS a, regexp_match(line, '(\w+) (/.*)') AS b, regexp_replace(line, '\d+', '#', 'g') AS c, regexp_count(line, '/') AS d, initcap('hi THOMAS') AS e, lpad('42', 5, '0') AS f, position('GET' in line) AS g, substring(line from 1 for 4) AS h, concat_ws('-', 'a', NULL, 'b') AS i, translate('abc', 'ab', 'xy') AS j, format('%s has %s', who.name, id) AS k, md5('abc') AS l, encode(sha256('abc'::bytea), 'hex') AS m, starts_with(line, '2024') AS n, left('abcde', 2) AS o, overlay('abcdef' PLACING 'zz' FROM 2 FOR 3) AS p, to_hex(255) AS q, chr(65) AS r, octet_length('é') AS s, line ~ '^\d{4}' AS t, line ILIKE '%get%' AS u, quote_literal('O''R') AS v
FROM events WHERE id = 1;
--- duckdb
SELECT 1, 'GET', ['GET', '/a/b?x=1'], '#-#-# GET /a/b?x=#', 2, 'Hi Thomas', '00042', 12, '2024', 'a-b', 'xyc', 'ann has 1', md5('abc'), sha256('abc'), true, 'ab', 'azzef', 'ff', 'A', 2, true, true, '''O''''R'''
=== temporal-filter-now now
CREATE MATERIALIZED VIEW recent AS SELECT * FROM readings WHERE ts > NOW() - INTERVAL '5 minutes';
SELECT sensor, temp FROM recent;
--- duckdb
VALUES ('a', 25), ('b', 7.5), ('a', 21), ('b', 6)
=== emit-window-close rows
CREATE MATERIALIZED VIEW window_count AS
SELECT window_start, COUNT(*) FROM TUMBLE(readings, ts, INTERVAL '5 min')
GROUP BY window_start
EMIT ON WINDOW CLOSE;
SELECT * FROM window_count;
--- duckdb
SELECT time_bucket(INTERVAL 5 MINUTE, ts), count(*) FROM readings GROUP BY 1
=== sink-upsert sink
CREATE SINK totals AS SELECT customer_id, sum(amount) AS total, count(*) AS n FROM TUMBLE(orders, order_time, INTERVAL '1 hour') GROUP BY customer_id, window_start
WITH (connector = 'filesystem', path = '${out}/totals', format = 'parquet');
--- duckdb
SELECT 'totals', customer_id, sum(amount), count(*) FROM orders GROUP BY customer_id
=== lag-diff rows
SELECT sensor, ts, temp - LAG(temp) OVER (PARTITION BY sensor ORDER BY ts) AS delta FROM readings;
--- duckdb
SELECT sensor, ts, temp - lag(temp) OVER (PARTITION BY sensor ORDER BY ts) FROM readings
=== rolling-avg rows
SELECT sensor, ts, AVG(temp) OVER (PARTITION BY sensor ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a, MAX(temp) OVER (PARTITION BY sensor ORDER BY ts RANGE BETWEEN INTERVAL '3 minutes' PRECEDING AND CURRENT ROW) AS m FROM readings;
--- duckdb
SELECT sensor, ts, avg(temp) OVER (PARTITION BY sensor ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), max(temp) OVER (PARTITION BY sensor ORDER BY ts RANGE BETWEEN INTERVAL 3 MINUTES PRECEDING AND CURRENT ROW) FROM readings
=== running-total-of-windows rows
SELECT sensor, window_start, SUM(COUNT(*)) OVER (PARTITION BY sensor ORDER BY window_start) AS running FROM TUMBLE(readings, ts, INTERVAL '5 minutes') GROUP BY sensor, window_start;
--- duckdb
VALUES ('a', '2024-05-01T10:00:00', 3), ('a', '2024-05-01T10:05:00', 4), ('b', '2024-05-01T10:00:00', 2), ('b', '2024-05-01T10:05:00', 3)
=== cte-anti-table table
WITH buyers AS (SELECT DISTINCT customer_id FROM orders)
SELECT c.name, COALESCE(c.city, 'unknown') AS city FROM customers c LEFT JOIN buyers b ON c.id = b.customer_id WHERE b.customer_id IS NULL;
--- duckdb
VALUES ('Dee Kay', 'unknown')
=== generate-series-join table
SELECT g AS day FROM generate_series('2024-05-01'::timestamp, '2024-05-03'::timestamp, INTERVAL '1 day') AS g;
--- duckdb
VALUES ('2024-05-01T00:00:00'), ('2024-05-02T00:00:00'), ('2024-05-03T00:00:00')
