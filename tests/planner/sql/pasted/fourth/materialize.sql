CREATE TABLE orders (order_id int, customer_id int, product text, amount numeric, currency text, order_time timestamp, WATERMARK FOR order_time AS order_time - INTERVAL '10 seconds') WITH (path = '${data}/orders.csv');
CREATE TABLE shipments (id int, order_id int, ship_time timestamp, WATERMARK FOR ship_time AS ship_time) WITH (path = '${data}/shipments.csv');
CREATE TABLE customers (id int, name text, city text, signup date) WITH (path = '${data}/customers.csv');
CREATE TABLE readings (sensor text, temp double precision, ts timestamp, WATERMARK FOR ts AS ts) WITH (path = '${data}/readings.csv');
CREATE TABLE events (id int, ts timestamp, tags text[], nums int[], attrs jsonb, who STRUCT<name text, age int>, line text, WATERMARK FOR ts AS ts) WITH (path = '${data}/events.jsonl');
=== temporal-filter-window now
CREATE MATERIALIZED VIEW last_5_min AS
SELECT sensor, temp FROM readings WHERE mz_now() <= ts + INTERVAL '5 minutes';
SELECT * FROM last_5_min;
--- duckdb
VALUES ('b', 7.5), ('a', 21), ('b', 6), ('a', 25)
=== temporal-filter-both now
SELECT sensor, count(*) AS n, max(temp) AS m FROM readings
WHERE mz_now() >= ts AND mz_now() < ts + INTERVAL '2 minutes' GROUP BY sensor;
--- duckdb
VALUES ('a', 1, 21), ('b', 1, 6)
=== tumbling-by-date-bin table
SELECT date_bin('5 minutes', ts, '2000-01-01 00:00:00') AS window_start, count(*) AS n FROM readings GROUP BY 1;
--- duckdb
VALUES ('2024-05-01T10:00:00', 5), ('2024-05-01T10:05:00', 2)
=== auction-top-bids table
CREATE VIEW highest_bid_per_auction AS
SELECT grp.product, order_id, amount, order_time FROM
    (SELECT DISTINCT product FROM orders) grp,
    LATERAL (
        SELECT order_id, amount, order_time FROM orders
        WHERE product = grp.product AND amount IS NOT NULL
        ORDER BY amount DESC, order_id LIMIT 1
    );
SELECT product, order_id FROM highest_bid_per_auction;
--- duckdb
VALUES ('apple', 1), ('pear', 2), ('fig', 3)
=== distinct-on-latest table
SELECT DISTINCT ON (sensor) sensor, temp, ts FROM readings ORDER BY sensor, ts DESC;
--- duckdb
VALUES ('a', 21, '2024-05-01T10:06:00'), ('b', 6, '2024-05-01T10:06:30')
=== idiom-any-in table
SELECT id, name FROM customers WHERE id = ANY (SELECT customer_id FROM orders WHERE product = 'fig');
--- duckdb
VALUES (7, 'Ann Lee')
=== idiom-all table
SELECT order_id FROM orders WHERE amount >= ALL (SELECT amount FROM orders WHERE amount IS NOT NULL);
--- duckdb
VALUES (3)
=== idiom-any-less table
SELECT order_id FROM orders WHERE amount < ANY (SELECT amount FROM orders WHERE product = 'pear');
--- duckdb
VALUES (7)
=== or-any-all table
SELECT order_id FROM orders WHERE product = 'pear' OR amount >= ALL (SELECT amount FROM orders WHERE amount IS NOT NULL);
--- duckdb
VALUES (2), (3), (6)
=== first-value-group table
SELECT o.product, o.order_id, o.amount, fv.top FROM orders o,
 (SELECT product, max(amount) AS top FROM orders GROUP BY product) fv WHERE o.product = fv.product;
--- duckdb
SELECT product, order_id, amount, max(amount) OVER (PARTITION BY product) FROM orders
=== lag-self-join table
SELECT a.order_id, a.amount, b.amount AS before FROM orders a, orders b WHERE a.order_id = b.order_id + 1;
--- duckdb
SELECT a.order_id, a.amount, b.amount FROM orders a, orders b WHERE a.order_id = b.order_id + 1
=== jsonb-elements rows
SELECT id, e.value AS v FROM events, jsonb_array_elements(attrs -> 'list') AS e(value);
--- duckdb
VALUES (1, '1'), (1, '2'), (1, '3')
=== jsonb-parsed-view rows
CREATE VIEW parsed AS SELECT (attrs ->> 'k')::text AS k, (attrs -> 'o' ->> 'x')::text AS x, attrs -> 'list' AS l FROM events WHERE attrs ->> 'k' IS NOT NULL;
SELECT k, x, l FROM parsed;
--- duckdb
VALUES ('1', 'deep', '[1,2,3]'), ('two', NULL, '[]')
=== regexp-unnest rows
SELECT id, regexp_match(line, '(\d+)-(\d+)')[1] AS y, regexp_split_to_array('a,b', ',') AS p, line !~ 'GET' AS no, regexp_replace(line, 'a|b', 'X') AS r FROM events;
--- duckdb
VALUES (1, '2024', ['a', 'b'], false, '2024-05-01 GET /X/b?x=1'), (2, '2024', ['a', 'b'], true, '2024-05-02 POST /c'), (3, NULL, ['a', 'b'], true, 'Xad line')
=== window-functions-plain table
SELECT customer_id, order_id, rank() OVER (PARTITION BY customer_id ORDER BY amount DESC NULLS LAST) AS r, first_value(product) OVER (PARTITION BY customer_id ORDER BY order_id) AS f, sum(amount) OVER (PARTITION BY customer_id) AS s FROM orders;
--- duckdb
SELECT customer_id, order_id, rank() OVER (PARTITION BY customer_id ORDER BY amount DESC NULLS LAST), first_value(product) OVER (PARTITION BY customer_id ORDER BY order_id), sum(amount) OVER (PARTITION BY customer_id) FROM orders
=== list-map-agg table
SELECT customer_id, list_agg(product ORDER BY order_id) AS ps, jsonb_agg(order_id) AS ids, jsonb_object_agg(order_id, product) AS o, string_agg(DISTINCT product, ',') AS d FROM orders WHERE customer_id = 8 GROUP BY customer_id;
--- duckdb
VALUES (8, ['pear', 'apple'], '[2,5]', '{"2":"pear","5":"apple"}', 'pear,apple')
=== subscribe-cursor rows
BEGIN;
DECLARE c CURSOR FOR SUBSCRIBE (SELECT order_id FROM orders WHERE amount > 10);
FETCH ALL c;
COMMIT;
--- duckdb
VALUES (1), (3), (5)
=== subscribe-query rows
SUBSCRIBE (SELECT order_id, amount FROM orders WHERE amount > 10) WITH (SNAPSHOT = true);
--- duckdb
VALUES (1, 12.5), (3, 20), (5, 12.5)
=== explain-create-index table
CREATE MATERIALIZED VIEW city_counts IN CLUSTER quickstart AS SELECT city, count(*) FROM customers GROUP BY city HAVING count(*) > 1;
CREATE INDEX city_idx ON city_counts (city);
SELECT * FROM city_counts;
--- duckdb
VALUES ('Oslo', 2)
=== case-extract-interval rows
SELECT order_id, CASE WHEN amount IS NULL THEN 'none' ELSE 'some' END AS c, extract(hour FROM order_time) AS h, date_trunc('day', order_time) AS d, order_time - INTERVAL '1 day 2 hours' AS b, order_time::date = DATE '2024-05-01' AS e, to_char(order_time, 'HH24:MI') AS tc, age(TIMESTAMP '2024-05-02 00:00:00', order_time) > INTERVAL '13 hours' AS a, substring(product, 2, 3) AS s, greatest(1, order_id) AS g, amount::int AS i FROM orders WHERE order_id IN (1, 6);
--- duckdb
VALUES (1, 'some', 10, '2024-05-01T00:00:00', '2024-04-30T08:00:00', true, '10:00', true, 'ppl', 1, 13), (6, 'none', 10, '2024-05-01T00:00:00', '2024-04-30T08:14:59', true, '10:14', true, 'ear', 6, NULL)
