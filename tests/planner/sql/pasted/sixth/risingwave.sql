CREATE SOURCE cards (tx_id INT, card VARCHAR, merchant VARCHAR, amount DOUBLE PRECISION, status VARCHAR, lat DOUBLE PRECISION, lon DOUBLE PRECISION, tx_time TIMESTAMP, WATERMARK FOR tx_time AS tx_time - INTERVAL '10 seconds') WITH (connector = 'filesystem', path = '${data}/cards.csv') FORMAT PLAIN ENCODE CSV;
CREATE TABLE sales (sale_id INT PRIMARY KEY, sku VARCHAR, store VARCHAR, units INT, sold_at TIMESTAMP, WATERMARK FOR sold_at AS sold_at) WITH (connector = 'filesystem', path = '${data}/sales.csv') FORMAT PLAIN ENCODE CSV;
CREATE TABLE products (sku VARCHAR PRIMARY KEY, title VARCHAR, price DOUBLE PRECISION, cat VARCHAR, added DATE) WITH (connector = 'filesystem', path = '${data}/products.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE prices (sku VARCHAR, unit_price DOUBLE PRECISION, since TIMESTAMP, WATERMARK FOR since AS since) WITH (connector = 'filesystem', path = '${data}/prices.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE probes (probe VARCHAR, at TIMESTAMP, vals DOUBLE PRECISION[], labels VARCHAR[], pos STRUCT<room VARCHAR, xy STRUCT<x INT, y INT>>, body JSONB, WATERMARK FOR at AS at) WITH (connector = 'filesystem', path = '${data}/probes.jsonl') FORMAT PLAIN ENCODE JSON;
=== suspicious-activity rows
CREATE MATERIALIZED VIEW suspicious AS
SELECT card, COUNT(*) AS tx_count, SUM(amount) AS total, window_start, window_end
FROM TUMBLE(cards, tx_time, INTERVAL '10 MINUTES')
GROUP BY card, window_start, window_end
HAVING COUNT(*) > 2 AND SUM(amount) > 50;
SELECT card, tx_count, total FROM suspicious ORDER BY window_end DESC LIMIT 20;
--- duckdb
VALUES ('c1', 4, 969.5)
=== hop-offset rows
SELECT window_start, count(*) AS n FROM HOP(sales, sold_at, INTERVAL '12 hours', INTERVAL '1 day', INTERVAL '6 hours') GROUP BY window_start;
--- duckdb
SELECT s, count(*) FROM sales, (SELECT unnest(generate_series(TIMESTAMP '2025-05-30 06:00:00', TIMESTAMP '2025-07-02 06:00:00', INTERVAL 12 HOUR)) s) WHERE sold_at >= s AND sold_at < s + INTERVAL 24 HOUR GROUP BY s
=== sql-udf rows
CREATE FUNCTION half(x double precision) RETURNS double precision LANGUAGE sql AS $$ SELECT x / 2 $$;
CREATE FUNCTION twice(double precision) RETURNS double precision LANGUAGE SQL AS 'select $1 * 2';
SELECT tx_id, half(amount) AS h, twice(amount) AS t FROM cards WHERE tx_id <= 2;
--- duckdb
VALUES (1, 2.25, 9), (2, 10, 40)
=== jsonb-paths rows
SELECT probe, body -> 'net' ->> 'ip' AS ip, (body ->> 'temp')::double precision AS temp, jsonb_path_exists(body, '$.net.up') AS has_up, jsonb_path_query_first(body, '$.flags[*]') AS f, (body -> 'flags') @> '["b"]'::jsonb AS b FROM probes WHERE body IS NOT NULL;
--- duckdb
VALUES ('p1', '10.0.0.1', 21.5, true, '"a"', true), ('p2', '10.0.0.2', NULL, true, NULL, false), ('p1', NULL, 22, false, '"b"', true)
=== jsonb-object-agg-keys table
SELECT status, jsonb_object_agg(tx_id, merchant) AS j FROM cards WHERE status = 'declined' GROUP BY status;
--- duckdb
VALUES ('declined', '{"3":"Cafe Uno","7":"Jewels & Co"}')
=== array-transform rows
SELECT probe, array_transform(vals, |x| x * 10) AS t, array_min(vals) AS mn, array_sum(vals) AS su, array_distinct(vals) AS ds, array_length(labels) AS n, trim_array(labels, 1) AS ta, array_remove(labels, 'hall') AS rm, array_replace(labels, 'hall', 'den') AS rp, array_contains(vals, ARRAY[2.0]::double precision[]) AS ct FROM probes WHERE probe = 'p1';
--- duckdb
VALUES ('p1', [15, 25, 40], 1.5, 8, [1.5, 2.5, 4], 2, ['hall'], ['v2'], ['den', 'v2'], false), ('p1', [20, 20], 2, 4, [2], 1, [], [], ['den'], true)
=== over-range-interval rows
SELECT tx_id, sum(amount) OVER (PARTITION BY card ORDER BY tx_time RANGE BETWEEN INTERVAL '5 minutes' PRECEDING AND CURRENT ROW) AS s FROM cards WHERE card = 'c1';
--- duckdb
SELECT tx_id, sum(amount) OVER (PARTITION BY card ORDER BY tx_time RANGE BETWEEN INTERVAL 5 MINUTE PRECEDING AND CURRENT ROW) FROM cards WHERE card = 'c1'
=== previous-average rows
SELECT tx_id, amount, avg(amount) OVER w AS before, count(*) OVER w AS n FROM cards WINDOW w AS (PARTITION BY card ORDER BY tx_time ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING);
--- duckdb
SELECT tx_id, amount, avg(amount) OVER w, count(*) OVER w FROM cards WINDOW w AS (PARTITION BY card ORDER BY tx_time ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
=== haversine rows
SELECT a.tx_id, b.tx_id AS nxt, round(2 * 6371 * asin(sqrt(power(sin(radians(b.lat - a.lat) / 2), 2) + cos(radians(a.lat)) * cos(radians(b.lat)) * power(sin(radians(b.lon - a.lon) / 2), 2)))) AS km
FROM cards a JOIN cards b ON a.card = b.card AND b.tx_time > a.tx_time AND b.tx_time <= a.tx_time + INTERVAL '6 minutes' AND a.merchant <> b.merchant;
--- duckdb
SELECT a.tx_id, b.tx_id, round(2 * 6371 * asin(sqrt(power(sin(radians(b.lat - a.lat) / 2), 2) + cos(radians(a.lat)) * cos(radians(b.lat)) * power(sin(radians(b.lon - a.lon) / 2), 2)))) FROM cards a JOIN cards b ON a.card = b.card AND b.tx_time > a.tx_time AND b.tx_time <= a.tx_time + INTERVAL 6 MINUTE AND a.merchant <> b.merchant
=== include-timestamp rows
CREATE TABLE t2 (tx_id INT, tx_time TIMESTAMP, d VARCHAR AS to_char(tx_time, 'DD/MM/YYYY'), WATERMARK FOR tx_time AS tx_time) APPEND ONLY WITH (connector = 'filesystem', path = '${data}/cards.csv') FORMAT PLAIN ENCODE CSV (without_header = 'false', delimiter = ',');
SELECT * FROM t2 WHERE tx_id = 3;
--- duckdb
VALUES (3, '2025-06-01T10:01:00', '01/06/2025')
=== symmetric-and-some rows
SELECT tx_id, tx_id BETWEEN SYMMETRIC 5 AND 2 AS b, amount = SOME(ARRAY[4.5, 5.0]) AS s, merchant ILIKE 'cafe%' AS c, merchant ~* '^book' AS k, status IS NOT DISTINCT FROM 'ok' AS o, coalesce(amount, 0)::int % 2 AS m, -amount AS n, amount IS NULL AS nn, tx_id # 3 AS x, tx_id << 2 AS sh FROM cards WHERE tx_id <= 3;
--- duckdb
VALUES (1, false, true, true, false, true, 0, -4.5, false, 2, 4), (2, true, false, false, true, true, 0, -20, false, 1, 8), (3, true, true, true, false, false, 1, -5, false, 0, 12)
=== percentile-and-regr table
SELECT store, percentile_disc(0.5) WITHIN GROUP (ORDER BY units) AS pd, bit_or(units) AS bo, bit_xor(units) AS bx, stddev_samp(units) AS sd, count(*) FILTER (WHERE sku = 'A1') AS a1, array_agg(DISTINCT sku ORDER BY sku) AS skus, max(sold_at)::date AS d FROM sales GROUP BY store;
--- duckdb
SELECT store, quantile_disc(units, 0.5), bit_or(units), bit_xor(units), stddev_samp(units), count(*) FILTER (WHERE sku = 'A1'), list_sort(list(DISTINCT sku)), max(sold_at)::DATE FROM sales GROUP BY store
=== text-kit rows
SELECT tx_id, lpad(card, 5, '*') AS lp, overlay(merchant placing 'XX' from 2) AS ov, concat_ws(':', card, status) AS cw, position('o' in merchant) AS po, strpos(merchant, 'o') AS st, ascii(card) AS ac, repeat(card, 2) AS rp, split_part(merchant, ' ', 2) AS sp, regexp_split_to_array(merchant, ' ') AS ra, quote_literal(card) AS ql, md5(card) = md5('c1') AS h, encode('abc'::bytea, 'hex') AS hx, char_length(merchant) AS cl, substr(merchant, 2, 3) AS su, chr(97) AS ch, substring(merchant from '[A-Z][a-z]+') AS sx FROM cards WHERE tx_id = 1;
--- duckdb
VALUES (1, '***c1', 'CXXe Uno', 'c1:ok', 8, 8, 99, 'c1c1', 'Uno', ['Cafe', 'Uno'], '''c1''', true, '616263', 8, 'afe', 'a', 'Cafe')
=== times-kit rows
SELECT tx_id, date_trunc('day', tx_time) AS d, extract(epoch FROM tx_time)::bigint AS e, to_timestamp(1748772000) AS tt, age(TIMESTAMP '2025-06-02', tx_time) > INTERVAL '12 hours' AS ag, tx_time AT TIME ZONE 'Europe/Berlin' AS z, to_date('01 Jun 2025', 'DD Mon YYYY') AS td, make_date(2025, 6, 1) AS md, date '2025-06-01' + 3 AS p3, date_part('dow', tx_time) AS dow FROM cards WHERE tx_id = 1;
--- duckdb
VALUES (1, '2025-06-01T00:00:00', 1748772000, '2025-06-01T10:00:00', true, '2025-06-01T08:00:00', '2025-06-01', '2025-06-01', '2025-06-04', 0)
=== top-merchants-mv table
CREATE MATERIALIZED VIEW tops AS SELECT merchant, sum(amount) AS total, rank() OVER (ORDER BY sum(amount) DESC) AS rk FROM cards GROUP BY merchant;
SELECT merchant, rk FROM tops WHERE rk <= 2;
--- duckdb
VALUES ('Jewels & Co', 1), ('Gas Stop', 2)
=== delta-join-three table
SELECT s.store, p.cat, sum(s.units * p.price) AS revenue FROM sales s JOIN products p ON s.sku = p.sku WHERE p.price IS NOT NULL GROUP BY s.store, p.cat;
--- duckdb
SELECT store, cat, sum(units * price) FROM sales JOIN products USING (sku) WHERE price IS NOT NULL GROUP BY ALL
=== union-with-types table
SELECT card AS k, 'card' AS t FROM cards WHERE amount > 300 UNION SELECT store, 'store' FROM sales WHERE units > 5 UNION ALL SELECT 'x', 'y';
--- duckdb
VALUES ('c1', 'card'), ('c2', 'card'), ('north', 'store'), ('x', 'y')
=== asof-prices rows
SELECT s.sale_id, p.unit_price FROM sales s ASOF JOIN prices p ON s.sku = p.sku AND s.sold_at >= p.since;
--- duckdb
SELECT sale_id, unit_price FROM sales s ASOF JOIN prices p ON s.sku = p.sku AND sold_at >= since
=== lateral-unnest rows
SELECT probe, l.label, l.ordinality FROM probes, unnest(labels) WITH ORDINALITY AS l(label, ordinality) WHERE probe <> 'p1';
--- duckdb
VALUES ('p3', 'roof', 1), ('p3', 'new', 2), ('p3', 'v2', 3)
