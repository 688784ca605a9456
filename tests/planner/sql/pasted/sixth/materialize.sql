CREATE TABLE cards (tx_id int, card text, merchant text, amount double precision, status text, lat double precision, lon double precision, tx_time timestamp, WATERMARK FOR tx_time AS tx_time) WITH (path = '${data}/cards.csv');
CREATE TABLE sales (sale_id int, sku text, store text, units int, sold_at timestamp, WATERMARK FOR sold_at AS sold_at) WITH (path = '${data}/sales.csv');
CREATE TABLE products (sku text, title text, price double precision, cat text, added date) WITH (path = '${data}/products.csv');
CREATE TABLE prices (sku text, unit_price double precision, since timestamp, WATERMARK FOR since AS since) WITH (path = '${data}/prices.csv');
CREATE TABLE probes (probe text, at timestamp, vals double precision[], labels text[], pos STRUCT<room text, xy STRUCT<x int, y int>>, body jsonb, WATERMARK FOR at AS at) WITH (path = '${data}/probes.jsonl');
=== hopping-by-lateral table
SELECT w AS window_start, count(*) AS n FROM cards, LATERAL date_bin_hopping('5 minutes', '10 minutes', tx_time) AS w GROUP BY w;
--- duckdb
SELECT s, count(*) FROM cards, (SELECT unnest(generate_series(TIMESTAMP '2025-06-01 09:00:00', TIMESTAMP '2025-06-01 11:00:00', INTERVAL 5 MINUTE)) s) WHERE tx_time >= s AND tx_time < s + INTERVAL 10 MINUTE GROUP BY s
=== tumbling-bin table
SELECT date_bin('10 minutes', tx_time, '2025-01-01') AS b, sum(amount) AS total, count(*) FILTER (WHERE status = 'declined') AS bad FROM cards GROUP BY b;
--- duckdb
SELECT time_bucket(INTERVAL 10 MINUTE, tx_time) b, sum(amount), count(*) FILTER (WHERE status = 'declined') FROM cards GROUP BY b
=== top-per-group-lateral table
SELECT m.merchant, t.tx_id FROM (SELECT DISTINCT merchant FROM cards) m, LATERAL (SELECT tx_id FROM cards c WHERE c.merchant = m.merchant ORDER BY amount DESC LIMIT 1) t;
--- duckdb
SELECT merchant, tx_id FROM cards QUALIFY row_number() OVER (PARTITION BY merchant ORDER BY amount DESC NULLS FIRST) = 1
=== last-values-distinct-on table
SELECT DISTINCT ON (sku) sku, unit_price, since FROM prices ORDER BY sku, since DESC;
--- duckdb
SELECT sku, unit_price, since FROM prices QUALIFY row_number() OVER (PARTITION BY sku ORDER BY since DESC) = 1
=== lag-by-self-join table
SELECT a.tx_id, b.amount - a.amount AS diff FROM cards a JOIN cards b ON a.card = b.card AND b.tx_id = a.tx_id + 2;
--- duckdb
SELECT a.tx_id, b.amount - a.amount FROM cards a JOIN cards b ON a.card = b.card AND b.tx_id = a.tx_id + 2
=== jsonb-keys-lateral rows
SELECT probe, k FROM probes, jsonb_object_keys(body) AS k WHERE probe = 'p2';
--- duckdb
VALUES ('p2', 'temp'), ('p2', 'flags'), ('p2', 'net')
=== jsonb-text-elements rows
SELECT p.probe, f FROM probes p CROSS JOIN LATERAL jsonb_array_elements_text(p.body -> 'flags') AS f;
--- duckdb
VALUES ('p1', 'a'), ('p1', 'b'), ('p1', 'b')
=== jsonb-cast-and-contains rows
SELECT probe, (body -> 'n')::int AS n, body @> '{"net": {"up": true}}' AS up, body ? 'temp' AS t, jsonb_typeof(body -> 'flags') AS ty, body #> '{net,ip}' AS ip FROM probes WHERE body IS NOT NULL AND probe = 'p1';
--- duckdb
VALUES ('p1', 3, true, true, 'array', '"10.0.0.1"'), ('p1', 1, false, true, 'array', NULL)
=== avg-above-scalar table
SELECT tx_id FROM cards WHERE amount > (SELECT avg(amount) FROM cards) AND status = 'ok';
--- duckdb
SELECT tx_id FROM cards WHERE amount > (SELECT avg(amount) FROM cards) AND status = 'ok'
=== not-in-and-all table
SELECT sku FROM products WHERE sku NOT IN (SELECT sku FROM sales) OR price >= ALL (SELECT p2.price FROM products p2 WHERE p2.price IS NOT NULL);
--- duckdb
VALUES ('D4'), ('C3')
=== full-outer-sides table
SELECT coalesce(p.sku, s.sku) AS sku, p.title IS NULL AS unknown, s.u FROM products p FULL JOIN (SELECT sku, sum(units) AS u FROM sales GROUP BY sku) s ON p.sku = s.sku;
--- duckdb
VALUES ('A1', false, 13), ('B2', false, 4), ('C3', false, 1), ('D4', false, NULL), ('Z9', true, 7)
=== except-all-units table
SELECT sku FROM sales EXCEPT ALL SELECT sku FROM products;
--- duckdb
SELECT sku FROM sales EXCEPT ALL SELECT sku FROM products
=== intersect-all-units table
SELECT card FROM cards WHERE status = 'ok' INTERSECT ALL SELECT card FROM cards WHERE status <> 'ok';
--- duckdb
SELECT card FROM cards WHERE status = 'ok' INTERSECT ALL SELECT card FROM cards WHERE status <> 'ok'
=== sliding-hour-having now
SELECT card, count(*) AS n FROM cards WHERE mz_now() <= tx_time + INTERVAL '10 minutes' GROUP BY card HAVING count(*) >= 1;
--- duckdb
SELECT card, count(*) FROM cards WHERE tx_time > TIMESTAMP '2025-06-01 10:11:00' GROUP BY card
=== view-with-columns-renamed table
CREATE VIEW busy (who, how_many) AS SELECT card, count(*) FROM cards GROUP BY card HAVING count(*) > 2;
CREATE DEFAULT INDEX ON busy;
SELECT who FROM busy WHERE how_many >= 3;
--- duckdb
VALUES ('c1'), ('c2')
=== map-agg-and-list table
SELECT store, map_agg(sale_id::text, units) -> '100' AS m, list_agg(sku ORDER BY sale_id) AS l, string_agg(DISTINCT sku, ',' ORDER BY sku) AS s FROM sales WHERE store = 'north' GROUP BY store;
--- duckdb
VALUES ('north', 2, ['A1', 'B2', 'A1', 'Z9'], 'A1,B2,Z9')
=== subquery-in-case rows
SELECT tx_id, CASE WHEN merchant IN ('Cafe Uno', 'Book Nook') THEN 'small' WHEN amount >= 500 THEN 'huge' ELSE 'mid' END AS size, greatest(amount, 10) AS g, nullif(status, 'ok') AS st, round(amount::numeric, 1) AS r FROM cards WHERE tx_id IN (4, 6, 7);
--- duckdb
VALUES (4, 'mid', 60, NULL, 60), (6, 'mid', 45.25, NULL, 45.3), (7, 'huge', 900, 'declined', 900)
