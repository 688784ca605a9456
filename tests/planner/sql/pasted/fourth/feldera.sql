CREATE TABLE orders (order_id BIGINT NOT NULL PRIMARY KEY, customer_id BIGINT, product VARCHAR, amount DECIMAL(10, 2), currency VARCHAR, order_time TIMESTAMP LATENESS INTERVAL '1' MINUTE) WITH ('connector' = 'filesystem', 'path' = '${data}/orders.csv', 'format' = 'csv');
CREATE TABLE customers (id BIGINT, name VARCHAR, city VARCHAR, signup DATE) WITH ('connector' = 'filesystem', 'path' = '${data}/customers.csv', 'format' = 'csv');
=== tumble-table rows
CREATE VIEW per AS SELECT window_start, SUM(amount) AS total FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(order_time), INTERVAL '10' MINUTES)) GROUP BY window_start;
SELECT * FROM per;
--- duckdb
SELECT time_bucket(INTERVAL 10 MINUTE, order_time), sum(amount) FROM orders GROUP BY 1
=== qualify-argmax table
SELECT customer_id, ARG_MAX(product, order_id) AS last, COUNT(*) AS n FROM orders GROUP BY customer_id;
--- duckdb
VALUES (7, 'pear', 3), (8, 'apple', 2), (9, 'apple', 1), (10, 'fig', 1)
=== rolling-range rows
SELECT order_id, SUM(amount) OVER (PARTITION BY customer_id ORDER BY order_time RANGE BETWEEN INTERVAL 5 MINUTES PRECEDING AND CURRENT ROW) AS s FROM orders;
--- duckdb
SELECT order_id, sum(amount) OVER (PARTITION BY customer_id ORDER BY order_time RANGE BETWEEN INTERVAL 5 MINUTES PRECEDING AND CURRENT ROW) FROM orders
=== materialized-local-view rows
CREATE LOCAL VIEW oslo AS SELECT id FROM customers WHERE city = 'Oslo';
CREATE MATERIALIZED VIEW oslo_orders AS SELECT o.order_id, o.product FROM orders o JOIN oslo ON o.customer_id = oslo.id;
SELECT * FROM oslo_orders;
--- duckdb
VALUES (1, 'apple'), (3, 'fig'), (4, 'apple'), (6, 'pear')
