CREATE TABLE cards (tx_id INT, card STRING, merchant STRING, amount DOUBLE, status STRING, lat DOUBLE, lon DOUBLE, tx_time TIMESTAMP, WATERMARK FOR tx_time AS tx_time - INTERVAL 10 SECONDS) USING csv OPTIONS (path '${data}/cards.csv', header 'true');
CREATE TABLE sales (sale_id INT, sku STRING, store STRING, units INT, sold_at TIMESTAMP, WATERMARK FOR sold_at AS sold_at) USING csv OPTIONS (path '${data}/sales.csv', header 'true');
CREATE TABLE products (sku STRING, title STRING, price DOUBLE, cat STRING, added DATE) USING csv LOCATION '${data}/products.csv';
CREATE TABLE prices (sku STRING, unit_price DOUBLE, since TIMESTAMP, WATERMARK FOR since AS since) USING csv OPTIONS (path '${data}/prices.csv', header 'true');
CREATE TABLE probes (probe STRING, at TIMESTAMP, vals ARRAY<DOUBLE>, labels ARRAY<STRING>, pos STRUCT<room: STRING, xy: STRUCT<x: INT, y: INT>>, body STRING, WATERMARK FOR at AS at) USING json OPTIONS (path '${data}/probes.jsonl');
=== colon-paths rows
SELECT probe, body:temp::double AS temp, body:net.ip AS ip, body:flags[0] AS f0 FROM probes WHERE body IS NOT NULL;
--- duckdb
VALUES ('p1', 21.5, '10.0.0.1', 'a'), ('p2', NULL, '10.0.0.2', NULL), ('p1', 22, NULL, 'b')
=== sql-function rows
CREATE TEMPORARY FUNCTION with_tax(x DOUBLE, rate DOUBLE DEFAULT 0.2) RETURNS DOUBLE RETURN round(x * (1 + rate), 2);
SELECT tx_id, with_tax(amount) AS a, with_tax(amount, 0.1) AS b FROM cards WHERE tx_id < 3;
--- duckdb
VALUES (1, 5.4, 4.95), (2, 24, 22)
=== session-variables rows
DECLARE VARIABLE lim DOUBLE DEFAULT 100;
SET VAR lim = 300;
SELECT tx_id FROM cards WHERE amount > lim;
--- duckdb
VALUES (7), (9)
=== try-family rows
SELECT tx_id, try_cast(merchant AS INT) AS c, try_divide(amount, 0) AS d, try_element_at(array(1, 2), 5) AS e, try_to_number('12.5', '99.9') AS n, try_to_timestamp('nope') AS t FROM cards WHERE tx_id = 1;
--- duckdb
VALUES (1, NULL, NULL, NULL, 12.5, NULL)
=== listagg-spark-four table
SELECT card, listagg(merchant, '; ') WITHIN GROUP (ORDER BY merchant DESC) AS l, string_agg(DISTINCT status, ',') WITHIN GROUP (ORDER BY status) AS s FROM cards GROUP BY card;
--- duckdb
SELECT card, string_agg(merchant, '; ' ORDER BY merchant DESC), (SELECT string_agg(s, ',' ORDER BY s) FROM (SELECT DISTINCT status s FROM cards b WHERE b.card = cards.card)) FROM cards GROUP BY card
=== range-function rows
SELECT id, id * id AS sq FROM range(1, 6, 2);
--- duckdb
VALUES (1, 1), (3, 9), (5, 25)
=== watermark-window-agg rows
SELECT window.start AS s, window.end AS e, store, sum(units) AS u FROM sales GROUP BY window(sold_at, '12 hours'), store;
--- duckdb
SELECT time_bucket(INTERVAL 12 HOUR, sold_at) w, w + INTERVAL 12 HOUR, store, sum(units) FROM sales GROUP BY w, store
=== array-rows rows
SELECT probe, array_size(vals) AS n, array_max(vals) AS mx, sort_array(labels, false) AS so, array_repeat(probe, 2) AS rp, array_compact(array(1, null, 2)) AS cp, array_insert(vals, 1, 0.5) AS ins, slice(labels, -1, 1) AS sl, concat(labels, array('x')) AS cc FROM probes WHERE probe = 'p1';
--- duckdb
VALUES ('p1', 3, 4, ['v2', 'hall'], ['p1', 'p1'], [1, 2], [0.5, 1.5, 2.5, 4], ['v2'], ['hall', 'v2', 'x']), ('p1', 2, 2, ['hall'], ['p1', 'p1'], [1, 2], [0.5, 2, 2], ['hall'], ['hall', 'x'])
=== map-lambdas rows
SELECT tx_id, map_filter(map('a', tx_id, 'b', 9), (k, v) -> v > 5) AS f, transform_values(map('a', tx_id), (k, v) -> v + 1)['a'] AS t, transform_keys(map('a', tx_id), (k, v) -> upper(k))['A'] AS u, map_concat(map('a', 1), map('b', 2))['b'] AS c, map_contains_key(map('a', 1), 'a') AS h FROM cards WHERE tx_id = 2;
--- duckdb
VALUES (2, ['(''b'', 9)'], 3, 2, 2, true)
=== date-more rows
SELECT sku, date_diff(DATE '2025-06-01', added) AS dd, unix_date(added) AS ud, date_part('MONTH', added) AS m, dayname(added) AS dn, monthname(added) AS mn, added + INTERVAL 1 MONTH AS nx, add_months(added, -1) AS pm, to_char(added, 'yyyy') IS NOT NULL AS tc FROM products WHERE sku IN ('A1', 'B2');
--- duckdb
VALUES ('A1', 458, 19782, 2, 'Thu', 'Feb', '2024-03-29', '2024-01-29', true), ('B2', 152, 20088, 12, 'Tue', 'Dec', '2025-01-31', '2024-11-30', true)
=== timestamp-more rows
SELECT tx_id, date_trunc('MINUTE', tx_time) AS m, timestampadd(HOUR, 2, tx_time) AS a, timestampdiff(MINUTE, TIMESTAMP '2025-06-01 09:00:00', tx_time) AS d, make_timestamp(2025, 6, 1, 10, 0, 0) = tx_time AS eq, unix_millis(tx_time) AS ms, timestamp_seconds(1748772000) AS ts, date_format(tx_time, 'E d MMM HH:mm') AS df, to_unix_timestamp(tx_time) AS ut FROM cards WHERE tx_id <= 2;
--- duckdb
VALUES (1, '2025-06-01T10:00:00', '2025-06-01T12:00:00', 60, true, 1748772000000, '2025-06-01T10:00:00', 'Sun 1 Jun 10:00', 1748772000), (2, '2025-06-01T10:00:00', '2025-06-01T12:00:30', 60, false, 1748772030000, '2025-06-01T10:00:00', 'Sun 1 Jun 10:00', 1748772030)
=== text-more rows
SELECT tx_id, mask('AbCD123') AS m, split_part(merchant, ' ', 1) AS sp, contains(merchant, 'Uno') AS c, startswith(merchant, 'Ca') AS sw, left(merchant, 2) AS l, char_length(merchant) AS n, find_in_set('b', 'a,b,c') AS fs, regexp_count(merchant, 'o') AS rc, regexp_substr(merchant, '[a-z]+') AS rs, btrim('xxaxx', 'x') AS bt, overlay('Spark' PLACING '_' FROM 3) AS ov FROM cards WHERE tx_id = 1;
--- duckdb
VALUES (1, 'XxXXnnn', 'Cafe', true, true, 'Ca', 8, 2, 1, 'afe', 'a', 'Sp_rk')
=== aggregates-more table
SELECT card, count(DISTINCT merchant, status) AS cd, max_by(merchant, amount) AS mb, bit_xor(tx_id) AS bx, regr_slope(amount, tx_id) IS NOT NULL AS rs, percentile_approx(amount, 0.5) AS pa, sum(DISTINCT tx_id) AS sd, every(amount > 0) AS ev, first(amount, true) AS fi, kurtosis(tx_id) IS NOT NULL AS ku FROM cards WHERE card = 'c2' GROUP BY card;
--- duckdb
VALUES ('c2', 3, 'Jewels & Co', 13, true, 45.25, 17, true, 20, true)
=== nulls-and-frames table
SELECT tx_id, last_value(amount) IGNORE NULLS OVER (PARTITION BY card ORDER BY tx_time) AS lv, lag(amount, 1, 0) OVER (PARTITION BY card ORDER BY tx_time) AS lg, nth_value(merchant, 2) OVER (PARTITION BY card ORDER BY tx_time ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS nv, percent_rank() OVER (PARTITION BY card ORDER BY tx_id) AS pr FROM cards WHERE card = 'c3';
--- duckdb
VALUES (5, NULL, 0, 'Cafe Uno', 0), (8, 3.75, NULL, 'Cafe Uno', 1)
=== lateral-correlated table
SELECT p.sku, t.u FROM products p, LATERAL (SELECT sum(units) AS u FROM sales s WHERE s.sku = p.sku) t WHERE p.cat = 'home';
--- duckdb
VALUES ('A1', 13), ('C3', 1)
=== values-alias-star rows
SELECT t.*, a + b AS c FROM VALUES (1, 2), (3, 4) AS t(a, b) WHERE a < 3;
--- duckdb
VALUES (1, 2, 3)
=== grouping-sets-window-start table
SELECT store, sku, sum(units) AS u, grouping_id() AS g FROM sales GROUP BY store, sku WITH ROLLUP;
--- duckdb
SELECT store, sku, sum(units), grouping(store, sku) FROM sales GROUP BY ROLLUP (store, sku)
=== interval-left-join rows
SELECT d.tx_id AS declined, o.tx_id AS retry FROM cards d LEFT JOIN cards o ON d.card = o.card AND o.status = 'ok' AND o.tx_time > d.tx_time AND o.tx_time <= d.tx_time + INTERVAL 3 MINUTES WHERE d.status = 'declined';
--- duckdb
VALUES (3, 4), (7, NULL)
=== create-streaming-table table
CREATE OR REFRESH STREAMING TABLE ok_cards AS SELECT * FROM STREAM(cards) WHERE status = 'ok';
CREATE MATERIALIZED VIEW per_merchant AS SELECT merchant, count(*) AS n, sum(amount) AS total FROM ok_cards GROUP BY merchant;
SELECT * FROM per_merchant;
--- duckdb
SELECT merchant, count(*), sum(amount) FROM cards WHERE status = 'ok' GROUP BY merchant
=== variant-paths rows
SELECT probe, variant_get(parse_json(body), '$.net.ip', 'string') AS ip, parse_json(body):n::int AS n FROM probes WHERE body IS NOT NULL;
--- duckdb
VALUES ('p1', '10.0.0.1', 3), ('p2', '10.0.0.2', NULL), ('p1', NULL, 1)
=== pivot-with-expressions table
SELECT * FROM (SELECT store, sku, units FROM sales WHERE sku IN ('A1', 'B2')) PIVOT (sum(units) AS total, count(*) AS n FOR store IN ('north' AS n, 'south' AS s)) ORDER BY sku;
--- duckdb
SELECT sku, sum(units) FILTER (WHERE store = 'north'), nullif(count(*) FILTER (WHERE store = 'north'), 0), sum(units) FILTER (WHERE store = 'south'), nullif(count(*) FILTER (WHERE store = 'south'), 0) FROM sales WHERE sku IN ('A1', 'B2') GROUP BY sku
=== parametrised-identifier rows
SELECT tx_id FROM IDENTIFIER('cards') WHERE tx_id < 3;
--- duckdb
VALUES (1), (2)
=== from-json-keeps-types rows
SELECT from_json('{"a": "1", "b": 2, "c": true, "d": "2.5", "i": "true", "k": 1, "l": [1, "2"], "s": 7}', 'a INT, b INT, c INT, d DOUBLE, i BOOLEAN, k BOOLEAN, l ARRAY<INT>, s STRING') AS x;
--- duckdb
SELECT {'a': NULL, 'b': 2, 'c': NULL, 'd': NULL, 'i': NULL, 'k': NULL, 'l': CAST(NULL AS INT[]), 's': '7'}
