CREATE TABLE Bid (
  bidtime TIMESTAMP(3), price DECIMAL(10, 2), item STRING, supplier_id STRING,
  WATERMARK FOR bidtime AS bidtime - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/bid.csv', 'format' = 'csv');
CREATE TABLE Orders (
  order_id BIGINT, customer_id BIGINT, product STRING, amount DECIMAL(10, 2), currency STRING, order_time TIMESTAMP(3),
  WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/orders.csv', 'format' = 'csv');
CREATE TABLE Shipments (
  id BIGINT, order_id BIGINT, ship_time TIMESTAMP(3), WATERMARK FOR ship_time AS ship_time
) WITH ('connector' = 'filesystem', 'path' = '${data}/shipments.csv', 'format' = 'csv');
CREATE TABLE currency_rates (
  currency STRING, rate DECIMAL(32, 2), update_time TIMESTAMP(3),
  WATERMARK FOR update_time AS update_time, PRIMARY KEY (currency) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'path' = '${data}/rates.csv', 'format' = 'csv');
CREATE TABLE Customers (id BIGINT, name STRING, city STRING, signup DATE) WITH ('connector' = 'filesystem', 'path' = '${data}/customers.csv', 'format' = 'csv');
CREATE TABLE readings (sensor STRING, temp DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE) WITH ('connector' = 'filesystem', 'path' = '${data}/readings.csv', 'format' = 'csv');
CREATE TABLE events (id INT, ts TIMESTAMP(3), tags ARRAY<STRING>, nums ARRAY<INT>, attrs STRING, who ROW<name STRING, age INT>, line STRING, WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '${data}/events.jsonl', 'format' = 'json');
=== tumble-table-function rows
SELECT * FROM TABLE(
   TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES));
--- duckdb
SELECT *, w + INTERVAL 10 MINUTE, w + INTERVAL 10 MINUTE - INTERVAL 1 MILLISECOND FROM (SELECT *, time_bucket(INTERVAL 10 MINUTE, bidtime) w FROM bid)
=== tumble-group rows
SELECT window_start, window_end, SUM(price) AS total_price
  FROM TABLE(
    TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES))
  GROUP BY window_start, window_end;
--- duckdb
VALUES ('2020-04-15T08:00:00', '2020-04-15T08:10:00', 11), ('2020-04-15T08:10:00', '2020-04-15T08:20:00', 10)
=== hop-table rows
SELECT item, window_start, window_end FROM HOP(
      DATA => TABLE Bid,
      TIMECOL => DESCRIPTOR(bidtime),
      SLIDE => INTERVAL '5' MINUTES,
      SIZE => INTERVAL '10' MINUTES);
--- duckdb
SELECT item, s, s + INTERVAL 10 MINUTE FROM bid, (SELECT unnest(generate_series(TIMESTAMP '2020-04-15 07:55:00', TIMESTAMP '2020-04-15 08:20:00', INTERVAL 5 MINUTE)) s) WHERE bidtime >= s AND bidtime < s + INTERVAL 10 MINUTE
=== hop-group rows
SELECT window_start, window_end, SUM(price) AS total_price
  FROM TABLE(
    HOP(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES))
  GROUP BY window_start, window_end;
--- duckdb
VALUES ('2020-04-15T08:00:00', '2020-04-15T08:10:00', 11), ('2020-04-15T08:05:00', '2020-04-15T08:15:00', 15), ('2020-04-15T08:10:00', '2020-04-15T08:20:00', 10), ('2020-04-15T08:15:00', '2020-04-15T08:25:00', 6)
=== cumulate-group rows
SELECT window_start, window_end, SUM(price) AS total_price
  FROM TABLE(
    CUMULATE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES))
  GROUP BY window_start, window_end;
--- duckdb
VALUES ('2020-04-15T08:00:00', '2020-04-15T08:06:00', 4), ('2020-04-15T08:00:00', '2020-04-15T08:08:00', 6), ('2020-04-15T08:00:00', '2020-04-15T08:10:00', 11), ('2020-04-15T08:10:00', '2020-04-15T08:12:00', 3), ('2020-04-15T08:10:00', '2020-04-15T08:14:00', 4), ('2020-04-15T08:10:00', '2020-04-15T08:16:00', 4), ('2020-04-15T08:10:00', '2020-04-15T08:18:00', 10), ('2020-04-15T08:10:00', '2020-04-15T08:20:00', 10)
=== session-partition rows
SELECT window_start, window_end, supplier_id, SUM(price) AS total_price
  FROM TABLE(
      SESSION(TABLE Bid PARTITION BY supplier_id, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES))
  GROUP BY supplier_id, window_start, window_end;
--- duckdb
VALUES ('2020-04-15T08:05:00', '2020-04-15T08:09:00', 'supplier1', 6), ('2020-04-15T08:13:00', '2020-04-15T08:15:00', 'supplier1', 1), ('2020-04-15T08:09:00', '2020-04-15T08:13:00', 'supplier2', 8), ('2020-04-15T08:17:00', '2020-04-15T08:19:00', 'supplier2', 6)
=== session-rows rows
SELECT item, window_start, window_end FROM TABLE(SESSION(TABLE Bid PARTITION BY supplier_id, DESCRIPTOR(bidtime), INTERVAL '3' MINUTES));
--- duckdb
VALUES ('C', '2020-04-15T08:05:00', '2020-04-15T08:10:00'), ('A', '2020-04-15T08:05:00', '2020-04-15T08:10:00'), ('D', '2020-04-15T08:09:00', '2020-04-15T08:14:00'), ('B', '2020-04-15T08:09:00', '2020-04-15T08:14:00'), ('E', '2020-04-15T08:13:00', '2020-04-15T08:16:00'), ('F', '2020-04-15T08:17:00', '2020-04-15T08:20:00')
=== window-cube rows
SELECT window_start, window_end, item, supplier_id, SUM(price) AS total_price
FROM TABLE(
    TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, CUBE (supplier_id, item);
--- duckdb
SELECT w, w + INTERVAL 10 MINUTE, item, supplier_id, sum(price) FROM (SELECT *, time_bucket(INTERVAL 10 MINUTE, bidtime) w FROM bid) GROUP BY GROUPING SETS ((w, supplier_id, item), (w, supplier_id), (w, item), (w))
=== window-topn-after-agg rows
SELECT *
  FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) as rownum
    FROM (
      SELECT window_start, window_end, supplier_id, SUM(price) as price, COUNT(*) as cnt
      FROM TABLE(
        TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES))
      GROUP BY window_start, window_end, supplier_id
    )
  ) WHERE rownum <= 3;
--- duckdb
SELECT w, w + INTERVAL 10 MINUTE, supplier_id, s, c, row_number() OVER (PARTITION BY w ORDER BY s DESC) FROM (SELECT time_bucket(INTERVAL 10 MINUTE, bidtime) w, supplier_id, sum(price) s, count(*) c FROM bid GROUP BY ALL)
=== window-dedup-last rows
SELECT bidtime, price, item
  FROM (
    SELECT bidtime, price, item, supplier_id, window_start, window_end,
      ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY bidtime DESC) AS rownum
    FROM TABLE(
               TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES))
  ) WHERE rownum <= 1;
--- duckdb
VALUES ('2020-04-15T08:09:00', 5, 'D'), ('2020-04-15T08:17:00', 6, 'F')
=== over-range-interval rows
SELECT order_id, order_time, amount,
  SUM(amount) OVER (
    PARTITION BY product
    ORDER BY order_time
    RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW
  ) AS one_hour_prod_amount_sum
FROM Orders;
--- duckdb
SELECT order_id, order_time, amount, sum(amount) OVER (PARTITION BY product ORDER BY order_time RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW) FROM orders
=== over-named-two rows
SELECT order_id, order_time, amount,
  SUM(amount) OVER w AS sum_amount,
  AVG(amount) OVER w AS avg_amount
FROM Orders
WINDOW w AS (
  PARTITION BY product
  ORDER BY order_time
  ROWS BETWEEN 1 PRECEDING AND CURRENT ROW);
--- duckdb
SELECT order_id, order_time, amount, sum(amount) OVER w, avg(amount) OVER w FROM orders WINDOW w AS (PARTITION BY product ORDER BY order_time ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
=== dedup-first rows
SELECT order_id, customer_id, order_time
FROM (
   SELECT *, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_time ASC) AS row_num
   FROM Orders)
WHERE row_num = 1;
--- duckdb
VALUES (1, 7, '2024-05-01T10:00:00'), (2, 8, '2024-05-01T10:01:30'), (4, 9, '2024-05-01T10:06:10'), (7, 10, '2024-05-01T10:20:00')
=== interval-join-between rows
SELECT o.order_id, s.id
FROM Orders o, Shipments s
WHERE o.order_id = s.order_id
AND o.order_time BETWEEN s.ship_time - INTERVAL '4' HOUR AND s.ship_time;
--- duckdb
VALUES (1, 101), (3, 103), (5, 104)
=== interval-left-join rows
SELECT o.order_id, s.id
FROM Orders o LEFT JOIN Shipments s
ON o.order_id = s.order_id AND s.ship_time >= o.order_time AND s.ship_time < o.order_time + INTERVAL '4' HOUR;
--- duckdb
VALUES (1, 101), (2, NULL), (3, 103), (4, NULL), (5, 104), (6, NULL), (7, NULL)
=== temporal-join-versioned rows
SELECT
     order_id,
     amount,
     Orders.currency,
     rate,
     order_time
FROM Orders
LEFT JOIN currency_rates FOR SYSTEM_TIME AS OF Orders.order_time
ON Orders.currency = currency_rates.currency;
--- duckdb
SELECT order_id, amount, o.currency, rate, order_time FROM orders o ASOF LEFT JOIN rates r ON o.currency = r.currency AND order_time >= update_time
=== versioned-view-temporal-join rows
CREATE VIEW versioned_rates AS
SELECT currency, rate, update_time
  FROM (
      SELECT *,
      ROW_NUMBER() OVER (PARTITION BY currency ORDER BY update_time DESC) AS rownum
      FROM currency_rates)
WHERE rownum = 1;
SELECT order_id, amount * r.rate AS converted FROM Orders AS o
LEFT JOIN versioned_rates FOR SYSTEM_TIME AS OF o.order_time AS r ON o.currency = r.currency;
--- duckdb
SELECT order_id, amount * rate FROM orders o ASOF LEFT JOIN rates r ON o.currency = r.currency AND order_time >= update_time
=== lookup-join rows
SELECT o.order_id, o.amount, c.name, c.city
FROM (SELECT *, PROCTIME() AS proc_time FROM Orders) AS o
  JOIN Customers FOR SYSTEM_TIME AS OF o.proc_time AS c
    ON o.customer_id = c.id;
--- duckdb
SELECT order_id, amount, name, city FROM orders JOIN customers ON customer_id = id
=== lookup-join-computed-proctime rows
CREATE TABLE OrdersP (
  order_id BIGINT, customer_id BIGINT, order_time TIMESTAMP(3), proc_time AS PROCTIME(),
  WATERMARK FOR order_time AS order_time
) WITH ('connector' = 'filesystem', 'path' = '${data}/orders.csv', 'format' = 'csv');
SELECT o.order_id, c.name
FROM OrdersP AS o LEFT JOIN Customers FOR SYSTEM_TIME AS OF o.proc_time AS c ON o.customer_id = c.id;
--- duckdb
SELECT order_id, name FROM orders LEFT JOIN customers ON customer_id = id
=== match-partition-measures rows
SELECT T.sensor, T.first_temp, T.last_temp
FROM readings
    MATCH_RECOGNIZE (
      PARTITION BY sensor
      ORDER BY ts
      MEASURES
        FIRST(UP.temp) AS first_temp,
        LAST(UP.temp) AS last_temp
      ONE ROW PER MATCH
      AFTER MATCH SKIP PAST LAST ROW
      PATTERN (STRT UP+ DOWN)
      DEFINE
        UP AS UP.temp > LAST(UP.temp, 1) OR (LAST(UP.temp, 1) IS NULL AND UP.temp > STRT.temp),
        DOWN AS DOWN.temp < LAST(UP.temp)
    ) AS T;
--- duckdb
VALUES ('a', 22, 25), ('b', 7.5, 7.5)
=== match-docs-abc rows
SELECT T.aid, T.bid, T.cid
FROM Orders
MATCH_RECOGNIZE (
  ORDER BY order_time
  MEASURES A.order_id AS aid, B.order_id AS bid, C.order_id AS cid
  PATTERN (A B C)
  DEFINE A AS product = 'apple', B AS product = 'pear', C AS product = 'fig'
) AS T;
--- duckdb
VALUES (1, 2, 3), (5, 6, 7)
=== unnest-with-ordinality rows
SELECT id, tag, pos FROM events CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, pos);
--- duckdb
VALUES (1, 'a', 1), (1, 'b', 2), (3, 'b', 1), (3, 'c', 2), (3, 'b', 3)
=== unnest-left rows
SELECT id, tag FROM events LEFT JOIN UNNEST(tags) AS t(tag) ON TRUE;
--- duckdb
VALUES (1, 'a'), (1, 'b'), (2, NULL), (3, 'b'), (3, 'c'), (3, 'b')
=== json-values rows
SELECT id, JSON_VALUE(attrs, '$.k') AS k, JSON_VALUE(attrs, '$.k' RETURNING INTEGER DEFAULT -1 ON ERROR) AS ki,
  JSON_EXISTS(attrs, '$.o.x') AS ex, JSON_QUERY(attrs, '$.list') AS l, attrs IS JSON OBJECT AS isj, JSON_VALUE(attrs, 'lax $.o.x') AS deep
FROM events WHERE attrs IS NOT NULL;
--- duckdb
VALUES (1, '1', 1, true, '[1,2,3]', true, 'deep'), (2, 'two', -1, false, '[]', true, NULL)
=== json-constructors rows
SELECT JSON_OBJECT('id' VALUE id, KEY 'name' VALUE who.name ABSENT ON NULL) AS o, JSON_ARRAY(id, who.age NULL ON NULL) AS a, JSON_STRING(id) AS s, JSON_QUOTE('a"b') AS q
FROM events WHERE id = 2;
--- duckdb
VALUES ('{"id":2,"name":"bob"}', '[2,null]', '2', '"a\"b"')
=== group-having-distinct table
SELECT product, COUNT(DISTINCT customer_id) AS buyers, MAX(amount) AS top FROM Orders GROUP BY product HAVING COUNT(*) > 1;
--- duckdb
SELECT product, count(DISTINCT customer_id), max(amount) FROM orders GROUP BY product HAVING count(*) > 1
=== grouping-sets-values table
SELECT supplier_id, rating, COUNT(*) AS total
FROM (VALUES
    ('supplier1', 'product1', 4),
    ('supplier1', 'product2', 3),
    ('supplier2', 'product3', 3),
    ('supplier2', 'product4', 4))
AS Products(supplier_id, product_id, rating)
GROUP BY GROUPING SETS ((supplier_id, rating), (supplier_id), ());
--- duckdb
VALUES ('supplier1', 4, 1), ('supplier1', 3, 1), ('supplier2', 3, 1), ('supplier2', 4, 1), ('supplier1', NULL, 2), ('supplier2', NULL, 2), (NULL, NULL, 4)
=== set-ops-views table
create view t1(s) as values ('c'), ('a'), ('b'), ('b'), ('c');
create view t2(s) as values ('d'), ('e'), ('a'), ('b'), ('b');
(SELECT s FROM t1) UNION (SELECT s FROM t2);
--- duckdb
VALUES ('a'), ('b'), ('c'), ('d'), ('e')
=== intersect-views table
create view t1(s) as values ('c'), ('a'), ('b'), ('b'), ('c');
create view t2(s) as values ('d'), ('e'), ('a'), ('b'), ('b');
(SELECT s FROM t1) INTERSECT (SELECT s FROM t2);
--- duckdb
VALUES ('a'), ('b')
=== except-views table
create view t1(s) as values ('c'), ('a'), ('b'), ('b'), ('c');
create view t2(s) as values ('d'), ('e'), ('a'), ('b'), ('b');
(SELECT s FROM t1) EXCEPT (SELECT s FROM t2);
--- duckdb
VALUES ('c')
=== in-and-exists-tables table
SELECT name FROM Customers WHERE id IN (SELECT customer_id FROM Orders WHERE amount > 10)
UNION ALL
SELECT city FROM Customers c WHERE EXISTS (SELECT 1 FROM Orders o WHERE o.customer_id = c.id AND o.product = 'pear');
--- duckdb
VALUES ('Ann Lee'), ('Bob Ray'), ('Oslo'), ('Rome')
=== with-cte table
WITH orders_with_total AS (
    SELECT order_id, amount + 1 AS total
    FROM Orders
)
SELECT order_id, SUM(total) AS s
FROM orders_with_total
GROUP BY order_id;
--- duckdb
SELECT order_id, amount + 1 FROM orders
=== strings-a rows
SELECT id, REGEXP_EXTRACT(line, '(GET|POST) (.*)', 2) AS path, SPLIT_INDEX(line, ' ', 0) AS d, LPAD(CAST(id AS STRING), 3, '0') AS p, INITCAP(who.name) AS i,
  REGEXP_REPLACE(line, '[0-9]+', '#') AS r, PARSE_URL('http://h.io/p/q?x=1#f', 'HOST') AS h, LOCATE('b', who.name) AS loc, REVERSE(who.name) AS rv, CHAR_LENGTH(who.name) AS cl,
  OVERLAY('This is an old string' PLACING ' new' FROM 10 FOR 5) AS ov, SUBSTRING(who.name FROM 2) AS su, POSITION('n' IN who.name) AS po, TRIM(BOTH 'a' FROM 'abca') AS tr, REPEAT('ab', 2) AS re, ASCII('A') AS asc_
FROM events WHERE id < 3;
--- duckdb
VALUES (1, '/a/b?x=1', '2024-05-01', '001', 'Ann', '#-#-# GET /a/b?x=#', 'h.io', 0, 'nna', 3, 'This is a new string', 'nn', 2, 'bc', 'abab', 65), (2, '/c', '2024-05-02', '002', 'Bob', '#-#-# POST /c', 'h.io', 1, 'bob', 3, 'This is a new string', 'ob', 0, 'bc', 'abab', 65)
=== hashes rows
SELECT MD5('abc') AS m, SHA1('abc') AS s1, SHA256('abc') AS s2, SHA2('abc', 256) AS s3, TO_BASE64('abc') AS b, FROM_BASE64('YWJj') AS fb, HEX('abc') AS hx FROM events WHERE id = 1;
--- duckdb
SELECT md5('abc'), 'a9993e364706816aba3e25717850c26c9cd0d89d', sha256('abc'), sha256('abc'), 'YWJj', 'abc', '616263'
=== times-a rows
SELECT order_id, DATE_FORMAT(order_time, 'yyyy-MM-dd HH:mm') AS f, EXTRACT(MINUTE FROM order_time) AS m, TIMESTAMPDIFF(SECOND, TIMESTAMP '2024-05-01 10:00:00', order_time) AS d, TIMESTAMPADD(DAY, 1, order_time) AS nx,
  QUARTER(DATE '2024-05-01') AS q, DAYOFMONTH(order_time) AS dm, HOUR(order_time) AS h, CEIL(order_time TO HOUR) AS c, FLOOR(order_time TO DAY) AS fl, TO_TIMESTAMP('2024-01-02 03:04:05') AS t, TO_DATE('2024-01-02') AS td, order_time + INTERVAL '1' YEAR AS yr,
  CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles') AS tz, FROM_UNIXTIME(44) AS fu, DATE_FORMAT(TO_TIMESTAMP_LTZ(4001, 3), 'HH:mm:ss') AS lt
FROM Orders WHERE order_id = 4;
--- duckdb
VALUES (4, '2024-05-01 10:06', 6, 370, '2024-05-02T10:06:10', 2, 1, 10, '2024-05-01T11:00:00', '2024-05-01T00:00:00', '2024-01-02T03:04:05', '2024-01-02', '2025-05-01T10:06:10', '1969-12-31 16:00:00', '1970-01-01 00:00:44', '00:00:04')
=== arrays-maps rows
SELECT id, CARDINALITY(nums) AS n, nums[1] AS f, ARRAY_CONTAINS(nums, 2) AS c, ARRAY_DISTINCT(tags) AS d, ARRAY_JOIN(tags, '-') AS j, ARRAY_MAX(nums) AS mx, ARRAY_REVERSE(nums) AS rv, ARRAY_SORT(nums) AS so, ARRAY_SLICE(nums, 1, 2) AS sl, MAP['k', id]['k'] AS mk, MAP_KEYS(MAP['a', 1, 'b', 2]) AS ks, ELEMENT(ARRAY[id]) AS el, ARRAY_POSITION(nums, 2) AS ap, ARRAY_APPEND(nums, 9) AS ad, ARRAY_REMOVE(nums, 1) AS ar, ARRAY_UNION(ARRAY[1], nums) AS au
FROM events WHERE id = 1;
--- duckdb
VALUES (1, 3, 3, true, ['a', 'b'], 'a-b', 3, [2, 1, 3], [1, 2, 3], [3, 1], 1, ['a', 'b'], 1, 3, [3, 1, 2, 9], [3, 2], [1, 3, 2])
=== conditionals-b rows
SELECT id, CASE who.name WHEN 'ann' THEN 'A' WHEN 'bob' THEN 'B' ELSE '?' END AS c, COALESCE(who.age, 0) AS co, NULLIF(id, 2) AS nu, IF(id > 1, 'big', 'small') AS i, IFNULL(who.age, -1) AS ifn, GREATEST(id, 2) AS g, TRY_CAST(line AS INT) AS tc, CAST(id AS STRING) || 'x' AS cs, TYPEOF(id) AS ty, id IS DISTINCT FROM 2 AS df, who.name SIMILAR TO '(a|b)%' AS si, IS_DIGIT('12') AS dg, IS_ALPHA('a1') AS al
FROM events;
--- duckdb
VALUES (1, 'A', 31, 1, 'small', 31, 2, NULL, '1x', 'INT', true, true, true, false), (2, 'B', 0, NULL, 'big', -1, 2, NULL, '2x', 'INT', false, true, true, false), (3, '?', 40, 3, 'big', 40, 3, NULL, '3x', 'INT', true, false, true, false)
=== execute-insert-set sink
CREATE TABLE big_orders (order_id BIGINT, amount DECIMAL(10, 2)) WITH ('connector' = 'filesystem', 'path' = '${out}/big', 'format' = 'parquet');
CREATE TABLE per_window (n BIGINT, total DECIMAL(38, 2)) WITH ('connector' = 'filesystem', 'path' = '${out}/per', 'format' = 'parquet');
SET 'execution.runtime-mode' = 'streaming';
SET 'table.exec.state.ttl' = '1 h';
EXECUTE STATEMENT SET
BEGIN
INSERT INTO big_orders SELECT order_id, amount FROM Orders WHERE amount > 10;
INSERT INTO per_window SELECT COUNT(*), SUM(amount) FROM TABLE(TUMBLE(TABLE Orders, DESCRIPTOR(order_time), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end;
END;
--- duckdb
VALUES ('big', 1, 12.5), ('big', 3, 20), ('big', 5, 12.5), ('per', 4, 42.75), ('per', 2, 12.5), ('per', 1, 1)
=== window-left-join rows
SELECT L.order_id AS l, R.id AS r, COALESCE(L.window_start, R.window_start) AS window_start
FROM (SELECT * FROM TABLE(TUMBLE(TABLE Orders, DESCRIPTOR(order_time), INTERVAL '10' MINUTES))) L
LEFT JOIN (SELECT * FROM TABLE(TUMBLE(TABLE Shipments, DESCRIPTOR(ship_time), INTERVAL '10' MINUTES))) R
ON L.order_id = R.order_id AND L.window_start = R.window_start AND L.window_end = R.window_end;
--- duckdb
SELECT order_id, CASE order_id WHEN 3 THEN 103 WHEN 5 THEN 104 END, time_bucket(INTERVAL 10 MINUTE, order_time) FROM orders
=== window-anti-join rows
SELECT L.order_id FROM (
    SELECT * FROM TABLE(TUMBLE(TABLE Orders, DESCRIPTOR(order_time), INTERVAL '10' MINUTES))
) L WHERE NOT EXISTS (
  SELECT * FROM (
    SELECT * FROM TABLE(TUMBLE(TABLE Shipments, DESCRIPTOR(ship_time), INTERVAL '10' MINUTES))
  ) R WHERE L.order_id = R.order_id AND L.window_start = R.window_start AND L.window_end = R.window_end);
--- duckdb
VALUES (1), (2), (4), (6), (7)
=== window-semi-in rows
SELECT L.order_id FROM (
    SELECT * FROM TABLE(TUMBLE(TABLE Orders, DESCRIPTOR(order_time), INTERVAL '10' MINUTES))
) L WHERE L.order_id IN (
  SELECT order_id FROM (
    SELECT * FROM TABLE(TUMBLE(TABLE Shipments, DESCRIPTOR(ship_time), INTERVAL '10' MINUTES))
  ) R WHERE L.window_start = R.window_start AND L.window_end = R.window_end);
--- duckdb
VALUES (3), (5)
=== topn-category table
SELECT product, order_id, amount, row_num
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY product ORDER BY amount DESC, order_id) AS row_num
  FROM Orders WHERE amount IS NOT NULL)
WHERE row_num <= 2;
--- duckdb
SELECT product, order_id, amount, row_number() OVER (PARTITION BY product ORDER BY amount DESC, order_id) rn FROM orders WHERE amount IS NOT NULL QUALIFY rn <= 2
=== listagg-table table
SELECT customer_id, LISTAGG(product, '|') AS ps, FIRST_VALUE(product) AS f, LAST_VALUE(product) AS l FROM Orders GROUP BY customer_id;
--- duckdb
VALUES (7, 'apple|fig|pear', 'apple', 'pear'), (8, 'pear|apple', 'pear', 'apple'), (9, 'apple', 'apple', 'apple'), (10, 'fig', 'fig', 'fig')
