CREATE TABLE orders (
  order_id BIGINT, customer STRING, product STRING, category STRING, amount INT, price DOUBLE,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/orders.csv', 'format' = 'csv');
CREATE TABLE shipments (
  shipment_id BIGINT, order_id BIGINT, carrier STRING, ship_time TIMESTAMP(3),
  WATERMARK FOR ship_time AS ship_time - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/shipments.csv', 'format' = 'csv');
CREATE TABLE Bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE
) WITH ('connector' = 'filesystem', 'path' = '${data}/bids.jsonl', 'format' = 'json');
=== tumble-sum rows
SELECT window_start, window_end, SUM(price) AS total_price
FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end;
--- duckdb
SELECT time_bucket(INTERVAL '10 minutes', ts) a, a + INTERVAL '10 minutes', sum(price) FROM bids GROUP BY a
=== tumble-unnamed-sum rows
SELECT window_start, window_end, SUM(price)
  FROM TABLE(
    TUMBLE(TABLE Bid, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
  GROUP BY window_start, window_end;
--- duckdb
SELECT time_bucket(INTERVAL '10 minutes', ts) a, a + INTERVAL '10 minutes', sum(price) FROM bids GROUP BY a
=== hop-named-arguments rows
SELECT window_start, window_end, SUM(price) AS total_price
FROM HOP(
    DATA => TABLE Bid,
    TIMECOL => DESCRIPTOR(ts),
    SLIDE => INTERVAL '5' MINUTES,
    SIZE => INTERVAL '10' MINUTES)
GROUP BY window_start, window_end;
--- duckdb
SELECT s, s + INTERVAL 10 MINUTE, sum(price) FROM bids, (SELECT unnest(generate_series(TIMESTAMP '2026-01-01 09:50:00', TIMESTAMP '2026-01-01 10:30:00', INTERVAL 5 MINUTE)) s) WHERE ts >= s AND ts < s + INTERVAL 10 MINUTE GROUP BY s
=== cumulate rows
SELECT window_start, window_end, SUM(price) AS total_price
FROM TABLE(CUMULATE(TABLE Bid, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES))
GROUP BY window_start, window_end;
--- duckdb
SELECT w, e, sum(price) FROM (SELECT *, time_bucket(INTERVAL '10 minutes', ts) w FROM bids), (SELECT unnest(generate_series(TIMESTAMP '2026-01-01 10:02:00', TIMESTAMP '2026-01-01 10:20:00', INTERVAL 2 MINUTE)) e) WHERE e > w AND e <= w + INTERVAL 10 MINUTE AND ts < e GROUP BY w, e
=== session-by-key rows
SELECT bidder, window_start, window_end, COUNT(*) AS cnt
FROM TABLE(SESSION(TABLE Bid PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '4' MINUTES))
GROUP BY bidder, window_start, window_end;
--- duckdb
WITH a AS (SELECT *, CASE WHEN ts - lag(ts) OVER (PARTITION BY bidder ORDER BY ts) < INTERVAL 4 MINUTE THEN 0 ELSE 1 END n FROM bids), b AS (SELECT *, sum(n) OVER (PARTITION BY bidder ORDER BY ts) g FROM a) SELECT bidder, min(ts), max(ts) + INTERVAL 4 MINUTE, count(*) FROM b GROUP BY bidder, g
=== window-with-window-time rows
SELECT window_start AS window_5_start, window_end AS window_5_end, SUM(price) AS partial_price
FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(ts), INTERVAL '5' MINUTE))
GROUP BY channel, window_start, window_end, window_time;
--- duckdb
SELECT time_bucket(INTERVAL '5 minutes', ts) a, a + INTERVAL '5 minutes', sum(price) FROM bids GROUP BY a, channel
=== cascading-windows rows
CREATE VIEW window1 AS
SELECT window_start AS window_5mintumble_start, window_end AS window_5mintumble_end, window_time AS rowtime, SUM(price) AS partial_price
FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(ts), INTERVAL '5' MINUTES))
GROUP BY channel, window_start, window_end, window_time;
SELECT window_start, window_end, SUM(partial_price) AS total_price
FROM TABLE(TUMBLE(TABLE window1, DESCRIPTOR(rowtime), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end;
--- duckdb
SELECT time_bucket(INTERVAL '10 minutes', ts) a, a + INTERVAL '10 minutes', sum(price) FROM bids GROUP BY a
=== grouping-sets rows
SELECT window_start, window_end, channel, SUM(price) AS total_price
FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, GROUPING SETS ((channel), ());
--- duckdb
SELECT time_bucket(INTERVAL '10 minutes', ts) a, a + INTERVAL '10 minutes', channel, sum(price) FROM bids GROUP BY GROUPING SETS ((a, channel), (a))
=== window-rollup rows
SELECT window_start, window_end, channel, SUM(price) AS total_price
FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, ROLLUP (channel);
--- duckdb
SELECT time_bucket(INTERVAL '10 minutes', ts) a, a + INTERVAL '10 minutes', channel, sum(price) FROM bids GROUP BY GROUPING SETS ((a, channel), (a))
=== top-n-per-category table
SELECT product, category, amount, row_num
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY category ORDER BY amount DESC) AS row_num
  FROM orders)
WHERE row_num <= 2;
--- duckdb
SELECT product, category, amount, row_number() OVER (PARTITION BY category ORDER BY amount DESC) r FROM orders QUALIFY r <= 2
=== window-top-n rows
SELECT *
  FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) as rownum
    FROM (
      SELECT window_start, window_end, bidder, SUM(price) as price, COUNT(*) as cnt
      FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
      GROUP BY window_start, window_end, bidder
    )
  ) WHERE rownum <= 3;
--- duckdb
SELECT *, row_number() OVER (PARTITION BY a ORDER BY price DESC) r FROM (SELECT time_bucket(INTERVAL '10 minutes', ts) a, a + INTERVAL '10 minutes' e, bidder, sum(price) price, count(*) c FROM bids GROUP BY a, bidder) QUALIFY r <= 3
=== deduplicate-first rows
SELECT order_id, customer, ts
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts ASC) AS row_num
  FROM orders)
WHERE row_num = 1;
--- duckdb
SELECT order_id, customer, ts FROM orders QUALIFY row_number() OVER (PARTITION BY customer ORDER BY ts) = 1
=== deduplicate-last table
SELECT order_id, customer, product
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts DESC) AS row_num
  FROM orders)
WHERE row_num = 1;
--- duckdb
SELECT order_id, customer, product FROM orders QUALIFY row_number() OVER (PARTITION BY customer ORDER BY ts DESC) = 1
=== over-range rows
SELECT order_id, ts, amount,
  SUM(amount) OVER (
    PARTITION BY product
    ORDER BY ts
    RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND CURRENT ROW
  ) AS ten_minutes_sum
FROM orders;
--- duckdb
SELECT order_id, ts, amount, sum(amount) OVER (PARTITION BY product ORDER BY ts RANGE BETWEEN INTERVAL 10 MINUTE PRECEDING AND CURRENT ROW) FROM orders
=== over-named-window rows
SELECT order_id, ts, amount,
  SUM(amount) OVER w AS sum_amount,
  AVG(amount) OVER w AS avg_amount
FROM orders
WINDOW w AS (
  PARTITION BY product
  ORDER BY ts
  RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND CURRENT ROW);
--- duckdb
SELECT order_id, ts, amount, sum(amount) OVER w, CAST(trunc(avg(amount) OVER w) AS INT) FROM orders WINDOW w AS (PARTITION BY product ORDER BY ts RANGE BETWEEN INTERVAL 10 MINUTE PRECEDING AND CURRENT ROW)
=== group-count-table table
SELECT customer, COUNT(*), SUM(amount) FROM orders GROUP BY customer;
--- duckdb
SELECT customer, count(*), sum(amount) FROM orders GROUP BY customer
=== group-count-distinct table
SELECT COUNT(DISTINCT order_id) FROM orders;
--- duckdb
SELECT count(DISTINCT order_id) FROM orders
=== having table
SELECT SUM(amount) FROM orders GROUP BY customer HAVING SUM(amount) > 10;
--- duckdb
SELECT sum(amount) FROM orders GROUP BY customer HAVING sum(amount) > 10
=== interval-join rows
SELECT o.order_id, o.product, s.carrier
FROM orders o, shipments s
WHERE o.order_id = s.order_id
AND o.ts BETWEEN s.ship_time - INTERVAL '4' HOUR AND s.ship_time;
--- duckdb
SELECT o.order_id, o.product, s.carrier FROM orders o, shipments s WHERE o.order_id = s.order_id AND o.ts BETWEEN s.ship_time - INTERVAL 4 HOUR AND s.ship_time
=== regular-join table
SELECT *
FROM orders
INNER JOIN shipments
ON orders.order_id = shipments.order_id;
--- duckdb
SELECT o.*, s.* FROM orders o JOIN shipments s ON o.order_id = s.order_id
=== regular-left-join table
SELECT orders.order_id, orders.product, shipments.carrier
FROM orders
LEFT JOIN shipments
ON orders.order_id = shipments.order_id;
--- duckdb
SELECT o.order_id, o.product, s.carrier FROM orders o LEFT JOIN shipments s ON o.order_id = s.order_id
=== temporal-join rows
CREATE TABLE sales (
    sale_id STRING, currency STRING, total DECIMAL(32,2), sold_at TIMESTAMP(3),
    WATERMARK FOR sold_at AS sold_at - INTERVAL '15' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/sales.csv', 'format' = 'csv');
CREATE TABLE currency_rates (
    currency STRING, conversion_rate DECIMAL(32, 2), update_time TIMESTAMP(3),
    WATERMARK FOR update_time AS update_time - INTERVAL '15' SECOND,
    PRIMARY KEY(currency) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'path' = '${data}/currency_rates.csv', 'format' = 'csv');
SELECT sale_id, total, sales.currency, conversion_rate
FROM sales
LEFT JOIN currency_rates FOR SYSTEM_TIME AS OF sales.sold_at
ON sales.currency = currency_rates.currency;
--- duckdb
SELECT CAST(sale_id AS VARCHAR), total, s.currency, r.rate FROM sales s ASOF LEFT JOIN rates r ON s.currency = r.currency AND s.sold_at >= r.update_time
=== window-join rows
SELECT L.order_id AS l_order, R.order_id AS r_order,
  COALESCE(L.window_start, R.window_start) AS window_start,
  COALESCE(L.window_end, R.window_end) AS window_end
FROM (
    SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
) L
FULL JOIN (
    SELECT * FROM TABLE(TUMBLE(TABLE shipments, DESCRIPTOR(ship_time), INTERVAL '10' MINUTES))
) R
ON L.order_id = R.order_id AND L.window_start = R.window_start AND L.window_end = R.window_end;
--- duckdb
SELECT l.order_id, r.order_id, coalesce(l.w, r.w), coalesce(l.w, r.w) + INTERVAL 10 MINUTE FROM (SELECT *, time_bucket(INTERVAL '10 minutes', ts) w FROM orders) l FULL JOIN (SELECT *, time_bucket(INTERVAL '10 minutes', ship_time) w FROM shipments) r ON l.order_id = r.order_id AND l.w = r.w
=== exists-subquery table
SELECT customer, amount
FROM orders
WHERE EXISTS (
    SELECT order_id FROM shipments WHERE shipments.order_id = orders.order_id
);
--- duckdb
SELECT customer, amount FROM orders WHERE EXISTS (SELECT * FROM shipments s WHERE s.order_id = orders.order_id)
=== in-subquery table
SELECT customer, amount FROM orders WHERE order_id IN (SELECT order_id FROM shipments);
--- duckdb
SELECT customer, amount FROM orders WHERE order_id IN (SELECT order_id FROM shipments)
=== union-distinct table
(SELECT customer FROM orders WHERE amount > 3) UNION (SELECT customer FROM orders WHERE category = 'food');
--- duckdb
SELECT customer FROM orders WHERE amount > 3 UNION SELECT customer FROM orders WHERE category = 'food'
=== except-intersect table
(SELECT customer FROM orders) EXCEPT (SELECT customer FROM orders WHERE amount > 3);
--- duckdb
SELECT customer FROM orders EXCEPT SELECT customer FROM orders WHERE amount > 3
=== select-distinct table
SELECT DISTINCT product FROM orders;
--- duckdb
SELECT DISTINCT product FROM orders
=== integer-division rows
SELECT order_id, amount / 2 AS half, amount * 1.0 / 2 AS exact FROM orders;
--- duckdb
SELECT order_id, amount // 2, amount / 2 FROM orders
=== with-clause table
WITH orders_with_total AS (
    SELECT order_id, customer, price + amount AS total FROM orders
)
SELECT customer, SUM(total) FROM orders_with_total GROUP BY customer;
--- duckdb
SELECT customer, sum(price + amount) FROM orders GROUP BY customer
=== order-by-limit table
SELECT order_id, amount FROM orders ORDER BY amount DESC, order_id FETCH FIRST 3 ROWS ONLY;
--- duckdb
SELECT order_id, amount FROM orders ORDER BY amount DESC, order_id LIMIT 3
=== values rows
SELECT order_id, price FROM (VALUES (1, 2.0), (2, 3.1)) AS t (order_id, price);
--- duckdb
SELECT * FROM (VALUES (1, 2.0), (2, 3.1))
=== ddl-full rows
CREATE TEMPORARY TABLE IF NOT EXISTS my_orders (
  `order_id` BIGINT NOT NULL COMMENT 'the order',
  `customer` VARCHAR(20),
  `amount` INT,
  `price` DECIMAL(10, 2),
  `cost` AS price * amount,
  `ts` TIMESTAMP_LTZ(3),
  PRIMARY KEY (order_id) NOT ENFORCED,
  WATERMARK FOR `ts` AS `ts` - INTERVAL '5' SECOND
) COMMENT 'orders of the shop'
PARTITIONED BY (customer)
WITH (
  'connector' = 'filesystem',
  'path' = '${data}/orders.csv',
  'format' = 'csv',
  'scan.parallelism' = '2'
);
SELECT order_id, cost FROM my_orders WHERE customer = 'ann';
--- duckdb
SELECT order_id, price * amount FROM orders WHERE customer = 'ann'
=== ddl-like rows
CREATE TABLE base_orders (order_id BIGINT, amount INT, ts TIMESTAMP(3)) WITH (
  'connector' = 'filesystem', 'path' = '${data}/orders.csv', 'format' = 'csv');
CREATE TABLE timed_orders (
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) LIKE base_orders;
SELECT order_id, amount FROM timed_orders WHERE amount > 4;
--- duckdb
SELECT order_id, amount FROM orders WHERE amount > 4
=== epoch-computed-time rows
CREATE TABLE pageviews (
  viewtime BIGINT, userid STRING, pageid STRING,
  rowtime AS TO_TIMESTAMP_LTZ(viewtime, 3),
  WATERMARK FOR rowtime AS rowtime - INTERVAL '5' SECONDS
) WITH ('connector' = 'filesystem', 'path' = '${data}/pageviews.jsonl', 'format' = 'json');
SELECT window_start, pageid, COUNT(*) AS views
FROM TABLE(TUMBLE(TABLE pageviews, DESCRIPTOR(rowtime), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, pageid;
--- duckdb
SELECT time_bucket(INTERVAL '1 minute', ts) w, pageid, count(*) FROM pageviews GROUP BY w, pageid
=== old-group-window rows
SELECT customer, TUMBLE_START(ts, INTERVAL '10' MINUTE) AS wStart, SUM(amount)
FROM orders
GROUP BY TUMBLE(ts, INTERVAL '10' MINUTE), customer;
--- duckdb
SELECT customer, time_bucket(INTERVAL '10 minutes', ts) w, sum(amount) FROM orders GROUP BY customer, w
=== statement-set sink
CREATE TABLE ten_minutes (window_end TIMESTAMP(3), amount BIGINT) WITH ('connector' = 'filesystem', 'path' = '${out}/ten', 'format' = 'parquet');
CREATE TABLE drinks (ts TIMESTAMP(3), amount INT) WITH ('connector' = 'filesystem', 'path' = '${out}/drinks', 'format' = 'parquet');
SET 'pipeline.name' = 'two sinks';
EXECUTE STATEMENT SET
BEGIN
INSERT INTO ten_minutes
SELECT window_end, SUM(amount)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE))
GROUP BY window_start, window_end;
INSERT INTO drinks SELECT ts, amount FROM orders WHERE category = 'drinks';
END;
--- duckdb
SELECT 'ten', time_bucket(INTERVAL '10 minutes', ts) + INTERVAL '10 minutes', sum(amount) FROM orders GROUP BY 2 UNION ALL SELECT 'drinks', ts, amount FROM orders WHERE category = 'drinks'
=== session-time-zone-day rows
SET 'table.local-time-zone' = 'Asia/Shanghai';
SELECT window_start, window_end, SUM(amount) AS total
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' DAY))
GROUP BY window_start, window_end;
--- duckdb
SELECT TIMESTAMP '2026-01-01', TIMESTAMP '2026-01-02', sum(amount) FROM orders
=== filter-clause table
SELECT category,
  COUNT(*) AS total,
  COUNT(*) FILTER (WHERE amount > 2) AS big,
  COUNT(DISTINCT customer) FILTER (WHERE price > 5) AS dear
FROM orders GROUP BY category;
--- duckdb
SELECT category, count(*), count(*) FILTER (WHERE amount > 2), count(DISTINCT customer) FILTER (WHERE price > 5) FROM orders GROUP BY category
=== statement-set-of-three sink
CREATE VIEW big AS SELECT order_id, amount, price FROM orders WHERE amount > 1;
CREATE TABLE a (order_id BIGINT, n BIGINT) WITH ('path' = '${out}/a');
CREATE TABLE b (order_id BIGINT, n BIGINT) WITH ('path' = '${out}/b');
CREATE TABLE c (order_id BIGINT, n BIGINT) WITH ('path' = '${out}/c');
INSERT INTO a SELECT order_id, CAST(amount AS BIGINT) FROM big;
INSERT INTO b SELECT order_id, CAST(amount * 10 AS BIGINT) FROM big WHERE price > 5;
INSERT INTO c (n, order_id) SELECT 1, order_id FROM orders WHERE customer = 'ann';
--- duckdb
SELECT 'a', order_id, amount FROM orders WHERE amount > 1 UNION ALL SELECT 'b', order_id, amount * 10 FROM orders WHERE amount > 1 AND price > 5 UNION ALL SELECT 'c', order_id, 1 FROM orders WHERE customer = 'ann'
=== floor-to-unit rows
SELECT order_id, FLOOR(ts TO MINUTE) AS f, CEIL(ts TO HOUR) AS c, FLOOR(ts TO MONTH) AS m FROM orders;
--- duckdb
SELECT order_id, date_trunc('minute', ts), date_trunc('hour', ts) + INTERVAL 1 HOUR, date_trunc('month', ts) FROM orders
=== array-functions rows
SELECT order_id,
  ARRAY_REVERSE(ARRAY[amount, 1, 2]) AS r, ARRAY_DISTINCT(ARRAY[amount, 1, 1]) AS d,
  ARRAY_CONCAT(ARRAY[amount], ARRAY[7, 8]) AS c, ARRAY_APPEND(ARRAY[amount], 9) AS ap,
  ARRAY_PREPEND(ARRAY[amount], 9) AS p, ARRAY_REMOVE(ARRAY[amount, 1], 1) AS rm,
  ARRAY_POSITION(ARRAY[amount, 7], 7) AS po, ARRAY_MAX(ARRAY[amount, 2]) AS mx, ARRAY_MIN(ARRAY[amount, 2]) AS mn,
  ARRAY_SLICE(ARRAY[amount, 5, 6, 7], 2, 3) AS sl, ARRAY_JOIN(ARRAY[product, category], '/') AS j,
  ARRAY_UNION(ARRAY[amount, 1], ARRAY[1, 3]) AS u, ARRAY_INTERSECT(ARRAY[amount, 1], ARRAY[1, 3]) AS i, ARRAY_EXCEPT(ARRAY[amount, 5], ARRAY[5]) AS e
FROM orders;
--- duckdb
SELECT order_id, list_reverse([amount, 1, 2]), CASE WHEN amount = 1 THEN [1] ELSE [amount, 1] END, [amount, 7, 8], [amount, 9], [9, amount], list_filter([amount, 1], lambda x: x <> 1), list_position([amount, 7], 7), greatest(amount, 2), least(amount, 2), [5, 6], product || '/' || category, CASE WHEN amount = 1 THEN [1, 3] WHEN amount = 3 THEN [3, 1] ELSE [amount, 1, 3] END, CASE WHEN amount = 1 THEN [1] WHEN amount = 3 THEN [3, 1] ELSE [1] END, CASE WHEN amount = 5 THEN []::INT[] ELSE [amount] END FROM orders
=== row-and-json rows
SELECT order_id, JSON_OBJECT(KEY 'p' VALUE product, KEY 'n' VALUE amount) AS o, JSON_ARRAY(amount, 2) AS a, ROW(order_id, product) AS r FROM orders;
--- duckdb
SELECT order_id, '{"p":"' || product || '","n":' || amount || '}', '[' || amount || ',2]', {'a': order_id, 'b': product} FROM orders
=== json-arrayagg rows
SELECT window_start, JSON_ARRAYAGG(order_id) AS ids FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end;
--- duckdb
SELECT w, '[' || string_agg(order_id::VARCHAR, ',' ORDER BY ts, order_id) || ']' FROM (SELECT *, time_bucket(INTERVAL '10 minutes', ts) w FROM orders) GROUP BY w
=== regressions rows
SELECT window_start, REGR_SLOPE(price, amount) AS s, REGR_INTERCEPT(price, amount) AS i, REGR_R2(price, amount) AS r2, REGR_COUNT(price, amount) AS n, REGR_SXX(price, amount) AS sxx, REGR_SXY(price, amount) FILTER (WHERE amount > 1) AS sxy, REGR_AVGX(price, amount) AS ax, BIT_AND(amount) AS ba, BIT_OR(amount) AS bo, BIT_XOR(amount) AS bx
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
--- duckdb
SELECT time_bucket(INTERVAL '1 hour', ts) a, regr_slope(price, amount), regr_intercept(price, amount), regr_r2(price, amount), regr_count(price, amount), regr_sxx(price, amount), regr_sxy(price, amount) FILTER (WHERE amount > 1), regr_avgx(price, amount), bit_and(amount), bit_or(amount), bit_xor(amount) FROM orders GROUP BY a
=== share-of-window rows
SELECT order_id, amount - AVG(price) OVER (PARTITION BY window_start, window_end) AS d, SUM(price) OVER (PARTITION BY window_start, window_end, category) AS c
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTES));
--- duckdb
SELECT order_id, amount - AVG(price) OVER (PARTITION BY w), SUM(price) OVER (PARTITION BY w, category) FROM (SELECT *, time_bucket(INTERVAL '10 minutes', ts) w FROM orders)
=== lead-in-window rows
SELECT t.order_id, LEAD(t.amount) OVER (PARTITION BY t.window_start, t.window_end ORDER BY t.ts) AS nx
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) AS t WHERE t.amount > 1;
--- duckdb
SELECT order_id, LEAD(amount) OVER (PARTITION BY w ORDER BY ts) FROM (SELECT *, time_bucket(INTERVAL '10 minutes', ts) w FROM orders) WHERE amount > 1
=== running-and-whole table
SELECT order_id, SUM(amount) OVER (PARTITION BY customer ORDER BY ts) AS s, LAG(ts) OVER w AS pv, LEAD(ts) OVER w AS nx, NTILE(2) OVER w AS n FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts);
--- duckdb
SELECT order_id, SUM(amount) OVER w, LAG(ts) OVER w, LEAD(ts) OVER w, NTILE(2) OVER w FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts)
