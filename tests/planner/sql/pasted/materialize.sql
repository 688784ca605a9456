CREATE TABLE orders (
  order_id bigint, customer text, product text, category text, amount int4, price float8,
  ts timestamp with time zone, WATERMARK FOR ts AS ts - INTERVAL '5 seconds'
) WITH (path = '${data}/orders.csv');
CREATE TABLE users (user_id int NOT NULL, name text NOT NULL, city text, age int, referrer int)
WITH (path = '${data}/users.csv');
CREATE TABLE shipments (shipment_id int, order_id bigint, carrier text, ship_time timestamp,
  WATERMARK FOR ship_time AS ship_time) WITH (path = '${data}/shipments.csv');
=== materialized-view-join table
CREATE MATERIALIZED VIEW shipped AS
SELECT o.order_id, o.product, s.carrier FROM orders AS o JOIN shipments AS s USING (order_id);
SELECT carrier, count(*) AS n FROM shipped GROUP BY carrier;
--- duckdb
SELECT s.carrier, count(*) FROM orders o JOIN shipments s USING (order_id) GROUP BY s.carrier
=== top-k-lateral table
SELECT category, product, amount FROM
  (SELECT DISTINCT category FROM orders) grp,
  LATERAL (SELECT product, amount FROM orders WHERE category = grp.category ORDER BY amount DESC LIMIT 1);
--- duckdb
SELECT category, product, amount FROM orders QUALIFY row_number() OVER (PARTITION BY category ORDER BY amount DESC) = 1
=== distinct-on table
SELECT DISTINCT ON (customer) customer, product, amount FROM orders ORDER BY customer, amount DESC;
--- duckdb
SELECT customer, product, amount FROM orders QUALIFY row_number() OVER (PARTITION BY customer ORDER BY amount DESC) = 1
=== index-and-view table
CREATE VIEW order_totals AS SELECT customer, sum(price * amount) AS total FROM orders GROUP BY customer;
CREATE INDEX order_totals_idx ON order_totals (customer);
SELECT * FROM order_totals WHERE total > 50;
--- duckdb
SELECT customer, sum(price * amount) t FROM orders GROUP BY customer HAVING t > 50
=== any-all table
SELECT name FROM users WHERE age >= ALL (SELECT age FROM users WHERE age IS NOT NULL);
--- duckdb
SELECT name FROM users WHERE age = (SELECT max(age) FROM users)
=== equals-any table
SELECT order_id FROM orders WHERE order_id = ANY (SELECT order_id FROM shipments);
--- duckdb
SELECT order_id FROM orders WHERE order_id IN (SELECT order_id FROM shipments)
=== correlated-having table
SELECT city, count(*) AS n FROM users GROUP BY city HAVING count(*) > (SELECT count(*) FROM users WHERE age > 50);
--- duckdb
SELECT city, count(*) FROM users GROUP BY city HAVING count(*) > (SELECT count(*) FROM users WHERE age > 50)
=== not-exists table
SELECT o.order_id FROM orders o WHERE NOT EXISTS (SELECT * FROM shipments s WHERE s.order_id = o.order_id);
--- duckdb
SELECT order_id FROM orders WHERE order_id NOT IN (SELECT order_id FROM shipments)
=== full-join table
SELECT o.order_id, s.shipment_id FROM orders o FULL OUTER JOIN shipments s ON o.order_id = s.order_id;
--- duckdb
SELECT o.order_id, s.shipment_id FROM orders o FULL JOIN shipments s ON o.order_id = s.order_id
=== order-desc-nulls ordered
SELECT name, city FROM users ORDER BY city DESC, name LIMIT 3;
--- duckdb
SELECT name, city FROM users ORDER BY city DESC NULLS FIRST, name LIMIT 3
=== union-order table
SELECT name FROM users WHERE age > 40 UNION SELECT customer FROM orders WHERE amount > 5 ORDER BY name;
--- duckdb
SELECT name FROM users WHERE age > 40 UNION SELECT customer FROM orders WHERE amount > 5
=== max-by-date table
SELECT date_trunc('day', ts) AS day, max(price) AS dearest, min(price) FROM orders GROUP BY day;
--- duckdb
SELECT date_trunc('day', ts) AS d, max(price), min(price) FROM orders GROUP BY d
=== string-agg table
SELECT category, string_agg(product, ', ' ORDER BY order_id) AS products FROM orders GROUP BY category;
--- duckdb
SELECT category, string_agg(product, ', ' ORDER BY order_id) FROM orders GROUP BY category
=== window-lag rows
SELECT order_id, customer, lag(amount) OVER (PARTITION BY customer ORDER BY ts) AS before FROM orders;
--- duckdb
SELECT order_id, customer, lag(amount) OVER (PARTITION BY customer ORDER BY ts) FROM orders
=== at-time-zone rows
SELECT order_id, date_trunc('hour', ts AT TIME ZONE 'America/New_York') AS local_hour FROM orders;
--- duckdb
SELECT order_id, date_trunc('hour', ts - INTERVAL 5 HOUR) FROM orders
=== jsonb-agg table
SELECT category, jsonb_agg(order_id) AS ids, bool_or(amount > 4) AS big FROM orders GROUP BY category;
--- duckdb
SELECT category, '[' || string_agg(order_id::VARCHAR, ',' ORDER BY ts) || ']', bool_or(amount > 4) FROM orders GROUP BY category
=== two-sinks-from-view sink
CREATE VIEW dear AS SELECT order_id, price FROM orders WHERE price > 10;
CREATE SINK a (order_id bigint, price float8) WITH (path = '${out}/a');
CREATE SINK b (order_id bigint, price float8) WITH (path = '${out}/b');
INSERT INTO a SELECT * FROM dear;
INSERT INTO b SELECT order_id, price * 2 FROM dear;
--- duckdb
SELECT 'a', order_id, price FROM orders WHERE price > 10 UNION ALL SELECT 'b', order_id, price * 2 FROM orders WHERE price > 10
=== jsonb-agg-of-objects table
SELECT category, jsonb_agg(jsonb_build_object('id', order_id, 'l', jsonb_build_array(amount))) AS docs FROM orders GROUP BY category;
--- duckdb
SELECT category, '[' || string_agg('{"l":[' || amount || '],"id":' || order_id || '}', ',' ORDER BY ts) || ']' FROM orders GROUP BY category
