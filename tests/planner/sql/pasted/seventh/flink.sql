CREATE TABLE orders (
  order_id BIGINT, customer STRING, item STRING, qty INT, price DECIMAL(10, 2), currency STRING, status STRING, ordered_at TIMESTAMP(3),
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/orders.csv', 'format' = 'csv');
CREATE TABLE pays (
  pay_id STRING, order_id BIGINT, amount DECIMAL(10, 2), `method` STRING, paid_at TIMESTAMP(3), WATERMARK FOR paid_at AS paid_at - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/pays.csv', 'format' = 'csv');
CREATE TABLE staff (id INT, name STRING, dept STRING, salary INT, boss INT, hired DATE, email STRING)
WITH ('connector' = 'filesystem', 'path' = '${data}/staff.csv', 'format' = 'csv');
CREATE TABLE rates (
  currency STRING, rate DECIMAL(10, 4), valid_from TIMESTAMP(3), WATERMARK FOR valid_from AS valid_from, PRIMARY KEY (currency) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'path' = '${data}/rates.csv', 'format' = 'csv');
CREATE TABLE logs (
  host STRING, `at` TIMESTAMP(3), codes ARRAY<INT>, tags ARRAY<STRING>, dims ROW<cpu DOUBLE, mem ROW<used INT, free INT>>,
  spans ARRAY<ROW<op STRING, ms INT>>, raw STRING, WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/logs.jsonl', 'format' = 'json');
=== window-semi-in rows
SELECT order_id, item FROM (
  SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '30' MINUTES))
) L WHERE L.order_id IN (
  SELECT order_id FROM (
    SELECT * FROM TABLE(TUMBLE(TABLE pays, DESCRIPTOR(paid_at), INTERVAL '30' MINUTES))
  ) R WHERE L.window_start = R.window_start AND L.window_end = R.window_end);
--- duckdb
VALUES (1, 'pen'), (3, 'ink'), (5, 'pen'), (8, 'book'), (9, 'pen')
=== window-anti-not-in rows
SELECT * FROM (
  SELECT order_id, status, window_start, window_end FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '30' MINUTES))
) L WHERE L.order_id NOT IN (
  SELECT order_id FROM (
    SELECT order_id, window_start, window_end FROM TABLE(TUMBLE(TABLE pays, DESCRIPTOR(paid_at), INTERVAL '30' MINUTES))
  ) R WHERE L.window_start = R.window_start AND L.window_end = R.window_end);
--- duckdb
SELECT order_id, status, TIMESTAMP '2026-05-04 09:00:00', TIMESTAMP '2026-05-04 09:30:00' FROM orders WHERE order_id IN (2, 4, 6, 7)
=== window-left-join-star rows
SELECT L.order_id AS l_id, L.item, R.pay_id, COALESCE(L.window_start, R.window_start) AS window_start
FROM (SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '30' MINUTES))) L
LEFT JOIN (SELECT * FROM TABLE(TUMBLE(TABLE pays, DESCRIPTOR(paid_at), INTERVAL '30' MINUTES))) R
ON L.order_id = R.order_id AND L.window_start = R.window_start AND L.window_end = R.window_end;
--- duckdb
SELECT o.order_id, item, pay_id, time_bucket(INTERVAL 30 MINUTE, ordered_at) FROM orders o LEFT JOIN pays p ON o.order_id = p.order_id AND time_bucket(INTERVAL 30 MINUTE, ordered_at) = time_bucket(INTERVAL 30 MINUTE, paid_at)
=== hop-filter-and-distinct rows
SELECT window_start, COUNT(DISTINCT customer) AS buyers, COUNT(*) FILTER (WHERE status = 'paid') AS paid, SUM(CASE WHEN status = 'open' THEN 1 ELSE 0 END) AS open_n
FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '15' MINUTES, INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
--- duckdb
SELECT s, count(DISTINCT customer), count(*) FILTER (WHERE status = 'paid'), count(*) FILTER (WHERE status = 'open') FROM orders, (SELECT unnest(generate_series(TIMESTAMP '2026-05-04 08:00:00', TIMESTAMP '2026-05-04 11:00:00', INTERVAL 15 MINUTE)) s) WHERE ordered_at >= s AND ordered_at < s + INTERVAL 1 HOUR GROUP BY s
=== cumulate-per-customer rows
SELECT customer, window_end, SUM(qty) AS total
FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '20' MINUTES, INTERVAL '1' HOUR))
WHERE customer IN ('ann', 'cat') GROUP BY customer, window_start, window_end;
--- duckdb
SELECT customer, e, sum(qty) FROM orders, (SELECT unnest(generate_series(TIMESTAMP '2026-05-04 09:20:00', TIMESTAMP '2026-05-04 11:00:00', INTERVAL 20 MINUTE)) e) WHERE customer IN ('ann', 'cat') AND ordered_at < e AND ordered_at >= date_trunc('hour', e - INTERVAL 1 SECOND) GROUP BY customer, e
=== session-tvf-global rows
SELECT window_start, window_end, COUNT(*) AS n, SUM(price) AS s
FROM TABLE(SESSION(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '8' MINUTES))
GROUP BY window_start, window_end;
--- duckdb
VALUES ('2026-05-04T09:00:00', '2026-05-04T09:20:00', 5, 23.65), ('2026-05-04T09:20:10', '2026-05-04T09:28:10', 1, 11.5), ('2026-05-04T09:29:59', '2026-05-04T09:38:00', 2, 19), ('2026-05-04T10:02:00', '2026-05-04T10:10:00', 1, 1.6)
=== window-dedup-last-by-key rows
SELECT customer, order_id, window_end FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, customer ORDER BY ordered_at DESC) AS rn
  FROM TABLE(TUMBLE(DATA => TABLE orders, TIMECOL => DESCRIPTOR(ordered_at), SIZE => INTERVAL '1' HOUR))
) WHERE rn = 1;
--- duckdb
SELECT customer, order_id, date_trunc('hour', ordered_at) + INTERVAL 1 HOUR w FROM orders QUALIFY row_number() OVER (PARTITION BY customer, w ORDER BY ordered_at DESC) = 1
=== dedup-first-by-proctime rows
CREATE TABLE orders_p (
  order_id BIGINT, customer STRING, ordered_at TIMESTAMP(3), proctime AS PROCTIME(), WATERMARK FOR ordered_at AS ordered_at
) WITH ('connector' = 'filesystem', 'path' = '${data}/orders.csv', 'format' = 'csv');
SELECT order_id, customer FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY proctime ASC) AS row_num FROM orders_p)
WHERE row_num = 1;
--- duckdb
VALUES (1, 'ann'), (2, 'bob'), (4, 'cat'), (7, 'dan')
=== top-n-of-all table
SELECT item, total FROM (
  SELECT item, total, ROW_NUMBER() OVER (ORDER BY total DESC) AS row_num FROM (SELECT item, SUM(qty) AS total FROM orders GROUP BY item)
) WHERE row_num <= 2;
--- duckdb
VALUES ('pen', 22), ('book', 4)
=== match-up-down-quantifier rows
SELECT * FROM orders MATCH_RECOGNIZE (
  PARTITION BY customer ORDER BY ordered_at
  MEASURES STRT.ordered_at AS start_tstamp, LAST(UP.price) AS top_price, LAST(DOWN.price) AS end_price, COUNT(UP.price) AS ups, AVG(UP.price) AS mean
  ONE ROW PER MATCH AFTER MATCH SKIP TO LAST DOWN
  PATTERN (STRT UP{2,} DOWN)
  DEFINE UP AS (LAST(UP.price, 1) IS NULL AND UP.price > STRT.price) OR UP.price > LAST(UP.price, 1),
         DOWN AS DOWN.price < LAST(UP.price, 1)
) MR;
--- duckdb
VALUES ('ann', '2026-05-04T09:00:00', 11.5, 1.6, 2, 9.375)
=== match-reluctant-no-partition rows
SELECT T.a, T.n, T.c FROM orders MATCH_RECOGNIZE (
  ORDER BY ordered_at
  MEASURES A.order_id AS a, COUNT(B.order_id) AS n, C.order_id AS c
  AFTER MATCH SKIP TO LAST C
  PATTERN (A B*? C)
  DEFINE A AS A.status = 'paid', C AS C.status = 'open'
) AS T;
--- duckdb
VALUES (1, 0, 2), (3, 2, 6)
=== rates-of-the-time rows
SELECT o.order_id, CAST(o.price * o.qty * COALESCE(r.rate, 1) AS DECIMAL(12, 2)) AS eur
FROM orders AS o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ordered_at AS r ON r.currency = o.currency
WHERE o.status <> 'void';
--- duckdb
SELECT order_id, round(CAST(price * qty * coalesce(rate, 1) AS DECIMAL(18, 6)), 2) FROM orders o ASOF LEFT JOIN rates r ON o.currency = r.currency AND ordered_at >= valid_from WHERE status <> 'void'
=== lookup-join-hint-retry rows
SELECT /*+ LOOKUP('table'='staff', 'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay', 'fixed-delay'='10s', 'max-attempts'='3') */ o.order_id, c.name
FROM (SELECT *, PROCTIME() AS proc_time FROM orders) AS o
JOIN staff FOR SYSTEM_TIME AS OF o.proc_time AS c ON o.qty = c.id
WHERE c.salary > 5000;
--- duckdb
SELECT order_id, name FROM orders JOIN staff ON qty = id WHERE salary > 5000
=== interval-join-with-gap rows
SELECT o.order_id, p.pay_id, TIMESTAMPDIFF(SECOND, o.ordered_at, p.paid_at) AS delay
FROM orders o INNER JOIN pays p ON o.order_id = p.order_id
  AND p.paid_at > o.ordered_at AND p.paid_at <= o.ordered_at + INTERVAL '15' MINUTE;
--- duckdb
SELECT o.order_id, pay_id, date_diff('second', ordered_at, paid_at) FROM orders o JOIN pays p ON o.order_id = p.order_id AND paid_at > ordered_at AND paid_at <= ordered_at + INTERVAL 15 MINUTE
=== self-join-of-staff table
SELECT e.name, b.name AS boss, COALESCE(b.dept, 'none') AS d
FROM staff e LEFT OUTER JOIN staff b ON e.boss = b.id AND b.salary >= 5000;
--- duckdb
SELECT e.name, b.name, coalesce(b.dept, 'none') FROM staff e LEFT JOIN staff b ON e.boss = b.id AND b.salary >= 5000
=== unnest-rows-of-array rows
SELECT host, s.op, s.ms FROM logs CROSS JOIN UNNEST(spans) AS s (op, ms) WHERE s.ms > 8;
--- duckdb
VALUES ('web1', 'get', 12), ('web1', 'put', 30), ('db1', 'get', 9), ('db1', 'get', 11)
=== unnest-map rows
SELECT order_id, t.k, t.v FROM orders CROSS JOIN UNNEST(MAP['q', qty, 'id', CAST(order_id AS INT)]) AS t (k, v) WHERE order_id < 3;
--- duckdb
VALUES (1, 'q', 3), (1, 'id', 1), (2, 'q', 1), (2, 'id', 2)
=== set-ops-all table
(SELECT dept FROM staff WHERE salary > 4000) INTERSECT ALL (SELECT dept FROM staff WHERE boss IS NOT NULL)
UNION ALL
(SELECT dept FROM staff EXCEPT ALL SELECT dept FROM staff WHERE salary >= 5000);
--- duckdb
VALUES ('eng'), ('eng'), ('ops'), ('ops'), (NULL)
=== rollup-with-grouping-id table
SELECT customer, item, COUNT(*) AS n, GROUPING_ID(customer, item) AS gid, CASE WHEN GROUPING(item) = 1 THEN 'all' ELSE item END AS label
FROM orders GROUP BY ROLLUP (customer, item) HAVING COUNT(*) > 1;
--- duckdb
SELECT customer, item, count(*), grouping(customer, item), CASE WHEN grouping(item) = 1 THEN 'all' ELSE item END FROM orders GROUP BY ROLLUP (customer, item) HAVING count(*) > 1
=== cte-with-column-names table
WITH per (who, n, total) AS (SELECT customer, COUNT(*), SUM(price * qty) FROM orders GROUP BY customer),
rich AS (SELECT * FROM per WHERE total > 20)
SELECT r.who, r.n, p.total AS best FROM rich r JOIN per p ON r.who = p.who;
--- duckdb
SELECT customer, count(*), sum(price * qty) t FROM orders GROUP BY customer HAVING t > 20
=== like-with-generated rows
CREATE TABLE base_orders (
  order_id BIGINT, item STRING, qty INT, price DECIMAL(10, 2), ordered_at TIMESTAMP(3), cost AS qty * price
) WITH ('connector' = 'filesystem', 'path' = '${data}/nowhere.csv', 'format' = 'csv');
CREATE TABLE my_orders (
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) WITH ('path' = '${data}/orders.csv') LIKE base_orders (INCLUDING GENERATED OVERWRITING OPTIONS);
SELECT order_id, cost FROM my_orders WHERE cost > 12;
--- duckdb
SELECT order_id, qty * price FROM orders WHERE qty * price > 12
=== ddl-with-many-options rows
CREATE TEMPORARY TABLE IF NOT EXISTS logs2 (
  `host` VARCHAR(20) NOT NULL COMMENT 'name of the host', `at` TIMESTAMP(3) NOT NULL, codes ARRAY<INT>, first_code AS codes[1],
  day_of AS CAST(`at` AS DATE), CONSTRAINT pk PRIMARY KEY (`host`) NOT ENFORCED, WATERMARK FOR `at` AS `at` - INTERVAL '0.5' SECOND
) COMMENT 'raw logs' WITH (
  'connector' = 'filesystem', 'path' = '${data}/logs.jsonl', 'format' = 'json', 'json.fail-on-missing-field' = 'false',
  'json.ignore-parse-errors' = 'true', 'json.timestamp-format.standard' = 'ISO-8601');
SELECT host, first_code, day_of FROM logs2;
--- duckdb
VALUES ('web1', 200, '2026-05-04'), ('web2', 500, '2026-05-04'), ('web1', NULL, '2026-05-04'), ('db1', 200, '2026-05-04')
=== insert-some-columns sink
CREATE TABLE out_orders (order_id BIGINT, note STRING, item STRING) WITH ('connector' = 'filesystem', 'path' = '${out}/out_orders', 'format' = 'parquet', 'sink.parallelism' = '1');
INSERT INTO out_orders (order_id, item) SELECT order_id, item FROM orders WHERE qty >= 5;
--- duckdb
VALUES ('out_orders', 4, NULL, 'pen'), ('out_orders', 9, NULL, 'pen')
=== insert-values sink
CREATE TABLE cities (id INT, city STRING, pop BIGINT) WITH ('connector' = 'filesystem', 'path' = '${out}/cities', 'format' = 'parquet');
INSERT INTO cities VALUES (1, 'Bonn', 336000), (2, 'Ulm', 128000);
--- duckdb
VALUES ('cities', 1, 'Bonn', 336000), ('cities', 2, 'Ulm', 128000)
=== statement-set-of-views sink
CREATE TABLE big (item STRING, total DECIMAL(12, 2)) WITH ('connector' = 'filesystem', 'path' = '${out}/big', 'format' = 'parquet');
CREATE TABLE small (item STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${out}/small', 'format' = 'parquet');
CREATE TEMPORARY VIEW hourly AS
SELECT item, SUM(price * qty) AS total, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '1' HOUR)) GROUP BY item, window_start, window_end;
EXECUTE STATEMENT SET BEGIN
INSERT INTO big SELECT item, total FROM hourly WHERE total >= 30;
INSERT INTO small SELECT item, n FROM hourly WHERE total < 30;
END;
--- duckdb
WITH h AS (SELECT item, sum(price * qty) t, count(*) n FROM orders GROUP BY item, date_trunc('hour', ordered_at)) SELECT 'big', item, t FROM h WHERE t >= 30 UNION ALL SELECT 'small', item, n FROM h WHERE t < 30
=== json-value-behaviours rows
SELECT host, JSON_VALUE(raw, '$.user.name' DEFAULT 'anon' ON EMPTY DEFAULT 'bad' ON ERROR) AS who, JSON_VALUE(raw, '$.id' RETURNING INTEGER) AS id,
  JSON_VALUE(raw, '$.ok' RETURNING BOOLEAN) AS ok, JSON_VALUE(raw, 'lax $.score' RETURNING DOUBLE DEFAULT 0.0 ON EMPTY) AS score, JSON_EXISTS(raw, 'strict $.user.langs[1]' UNKNOWN ON ERROR) AS two
FROM logs WHERE raw IS NOT NULL AND host <> 'db1';
--- duckdb
VALUES ('web1', 'Zoe', 7, true, 9.5, true), ('web2', 'anon', 8, false, 0, NULL)
=== json-query-wrappers rows
SELECT JSON_QUERY('{"a":[{"c":"c1"},{"c":"c2"}]}', 'lax $.a[*].c') AS a, JSON_QUERY('{}', '$' WITH CONDITIONAL ARRAY WRAPPER) AS b,
  JSON_QUERY('[1, 2]', '$' WITH CONDITIONAL ARRAY WRAPPER) AS c, JSON_QUERY('[1, 2]', '$' WITH UNCONDITIONAL ARRAY WRAPPER) AS d,
  JSON_QUERY('{}', 'lax $.invalid' EMPTY OBJECT ON EMPTY) AS e, JSON_QUERY('{}', 'strict $.invalid' EMPTY ARRAY ON ERROR) AS f, JSON_QUERY('1', '$') AS g,
  JSON_QUERY('{"x": ["p", "q"]}', '$.x' RETURNING ARRAY<STRING>) AS h;
--- duckdb
VALUES ('["c1","c2"]', '[{}]', '[1,2]', '[[1,2]]', '{}', '[]', NULL, ['p', 'q'])
=== json-predicates-and-builders rows
SELECT host, raw IS JSON AS j, raw IS NOT JSON AS nj, raw IS JSON OBJECT AS o, '1' IS JSON SCALAR AS s, '[]' IS JSON ARRAY AS a, 'abc' IS JSON VALUE AS v,
  JSON_OBJECT(KEY 'host' VALUE host, 'n' VALUE CARDINALITY(codes), 'in' VALUE JSON_OBJECT('x' VALUE CAST(NULL AS INT) ABSENT ON NULL)) AS jo,
  JSON_ARRAY(host, CAST(NULL AS STRING), JSON_ARRAY(1)) AS ja, JSON_STRING(codes) AS js, JSON_STRING(CAST(NULL AS INT)) AS jn
FROM logs WHERE host IN ('web2', 'db1');
--- duckdb
VALUES ('web2', true, false, true, true, true, false, '{"host":"web2","n":1,"in":{}}', '["web2",[1]]', '[500]', NULL), ('db1', false, true, false, true, true, false, '{"host":"db1","n":2,"in":{}}', '["db1",[1]]', '[200,201]', NULL)
=== json-aggregates-by-key table
SELECT customer, JSON_OBJECTAGG(KEY item VALUE qty ABSENT ON NULL) AS o, JSON_ARRAYAGG(status) AS a FROM orders WHERE customer IN ('bob', 'dan') GROUP BY customer;
--- duckdb
VALUES ('bob', '{"book":1,"pen":4}', '["open","paid"]'), ('dan', '{}', '["paid"]')
=== string-examples-of-the-page rows
SELECT CONCAT_WS('~', 'AA', CAST(NULL AS STRING), 'BB', '', 'CC') AS a, LPAD('hi', 1, '??') AS b, RPAD('hi', 5, 'xy') AS c, REPLACE('ababab', 'abab', 'z') AS d, REGEXP_REPLACE('foobar', 'oo|ar', '') AS e,
  REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)', 2) AS f, OVERLAY('xxxxxtest' PLACING 'xxxx' FROM 6) AS g, OVERLAY('xxxxxtest' PLACING 'xxxx' FROM 6 FOR 2) AS h, SPLIT_INDEX('a,b,c', ',', 5) AS i, SUBSTR('foobar', -3) AS j,
  INITCAP('hello wORLD') AS k, TRIM(TRAILING '*' FROM '**a**') AS l, 'a' || CAST(NULL AS STRING) AS m, STR_TO_MAP('a:1;b:2', ';', ':')['b'] AS n, CHARACTER_LENGTH('näh') AS o, LOWER('ÄB') AS p, REGEXP_EXTRACT('abc', '[0-9]+') AS q, DECODE(ENCODE('hello', 'UTF-8'), 'UTF-8') AS r;
--- duckdb
VALUES ('AA~BB~~CC', 'h', 'hixyx', 'zab', 'fb', 'bar', 'xxxxxxxxx', 'xxxxxxxxxst', NULL, 'bar', 'Hello World', '**a', NULL, '2', 3, 'äb', NULL, 'hello')
=== math-examples-of-the-page rows
SELECT ROUND(ATAN2(1, 1), 6) AS a, COSH(0) AS b, TANH(0) AS c, LOG2(8) AS d, LOG10(1000) AS e, CEILING(-1.5) AS f, -7 % 3 AS g, MOD(7, -3) AS h, TRUNCATE(-42.345, 1) AS i, TRUNCATE(1234, -2) AS j,
  ROUND(2.5) AS k, ROUND(1250, -2) AS l, DEGREES(PI()) AS m, ROUND(RADIANS(180), 6) AS n, LN(E()) AS o, 5 / 2 AS p, 5.0 / 2 AS q, CAST(5 AS DOUBLE) / 2 AS r, ABS(-1.25) AS s, SQRT(16) AS t, ROUND(ASIN(1) + ACOS(1) + ATAN(0), 4) AS u, -(-3) AS v;
--- duckdb
VALUES (0.785398, 1, 0, 3, 3, -1, -1, 1, -42.3, 1200, 3, 1300, 180, 3.141593, 1, 2, 2.5, 2.5, 1.25, 4, 1.5708, 3)
=== time-units-and-intervals rows
SELECT TIMESTAMPDIFF(MONTH, TIMESTAMP '2025-12-31 00:00:00', ordered_at) AS a, TIMESTAMPDIFF(YEAR, DATE '2020-02-29', DATE '2026-02-28') AS b, TIMESTAMPADD(WEEK, 2, DATE '2026-05-04') AS c,
  TIMESTAMPADD(MONTH, 1, TIMESTAMP '2026-01-31 10:00:00') AS d, FLOOR(ordered_at TO MONTH) AS e, CEIL(ordered_at TO DAY) AS f, EXTRACT(WEEK FROM DATE '2026-01-01') AS g, DAYOFWEEK(DATE '1994-09-27') AS h,
  DATE_FORMAT(ordered_at, 'EEE, d MMM yyyy HH:mm:ss') AS i, UNIX_TIMESTAMP('2026-05-04 00:00', 'yyyy-MM-dd HH:mm') AS j, ordered_at + INTERVAL '1 02:03:04' DAY TO SECOND AS k, DATE '2026-05-04' + INTERVAL '2-10' YEAR TO MONTH AS l,
  DATE '2026-05-04' - INTERVAL '1' YEAR AS m, TO_TIMESTAMP('04/05/2026', 'dd/MM/yyyy') AS n, EXTRACT(QUARTER FROM ordered_at) AS o
FROM orders WHERE order_id = 1;
--- duckdb
VALUES (4, 6, DATE '2026-05-18', TIMESTAMP '2026-02-28 10:00:00', TIMESTAMP '2026-05-01 00:00:00', TIMESTAMP '2026-05-05 00:00:00', 1, 3, 'Mon, 4 May 2026 09:00:00', 1777852800, TIMESTAMP '2026-05-05 11:03:04', DATE '2029-03-04', DATE '2025-05-04', TIMESTAMP '2026-05-04 00:00:00', 2)
=== overlaps-and-time-literals rows
SELECT (TIME '2:55:00', INTERVAL '1' HOUR) OVERLAPS (TIME '3:30:00', INTERVAL '2' HOUR) AS a, (DATE '2026-01-01', DATE '2026-01-05') OVERLAPS (DATE '2026-01-10', DATE '2026-01-11') AS b,
  FLOOR(TIME '12:44:31' TO MINUTE) AS c, CEIL(TIME '12:44:31' TO MINUTE) AS d, EXTRACT(HOUR FROM TIME '12:44:31') AS e;
--- duckdb
VALUES (true, false, TIME '12:44:00', TIME '12:45:00', 12)
=== casts-of-flink rows
SELECT CAST('true' AS BOOLEAN) AS a, CAST(0 AS BOOLEAN) AS b, CAST(TRUE AS STRING) AS c, CAST(12.50 AS STRING) AS d, CAST(DATE '2026-05-04' AS STRING) AS e, CAST(1.999 AS DECIMAL(5, 2)) AS f, CAST(' 7 ' AS INT) AS g, CAST(3.9 AS INT) AS h,
  TRY_CAST('2026-13-01' AS DATE) AS i, TRY_CAST('x' AS DOUBLE) AS j, CAST('abcdef' AS CHAR(3)) AS k, CAST('2026-05-04 10:11:12' AS TIMESTAMP(0)) AS l, CAST(ARRAY[1, 2] AS STRING) AS m, CAST(TIMESTAMP '2026-05-04 10:11:12' AS DATE) AS n, CAST(CAST(7 AS BIGINT) AS TINYINT) AS o, CAST(qty AS VARCHAR) AS p
FROM orders WHERE order_id = 4;
--- duckdb
VALUES (true, false, 'TRUE', '12.50', '2026-05-04', 2, 7, 3, NULL, NULL, 'abc', TIMESTAMP '2026-05-04 10:11:12', '[1, 2]', DATE '2026-05-04', 7, '10')
=== rows-and-nested-fields rows
SELECT host, dims.cpu AS cpu, dims.mem.used AS used, spans[1].op AS first_op, (host, CARDINALITY(tags)) IN (('web2', 0), ('db1', 3)) AS hit, ARRAY[ROW('a', 1), ROW('b', 2)][2] AS r, ROW(host, 1) = ROW('web2', 1) AS same
FROM logs WHERE dims.mem.free > 0;
--- duckdb
VALUES ('web1', 0.5, 10, 'get', false, {'a': 'b', 'b': 2}, false), ('web2', 0.9, 15, NULL, true, {'a': 'b', 'b': 2}, true), ('db1', 0.1, 3, 'del', true, {'a': 'b', 'b': 2}, false)
=== collections-more rows
SELECT ARRAY_UNION(codes, ARRAY[1]) AS a, ARRAY_INTERSECT(codes, ARRAY[200, 201]) AS b, ARRAY_MIN(codes) AS c, ARRAY_SORT(codes, FALSE) AS d, CARDINALITY(MAP['a', 1, 'b', 2]) AS e, MAP_ENTRIES(MAP['k', host]) AS f, ARRAY_CONTAINS(tags, 'eu') AS g, ARRAY_REMOVE(codes, 200) AS h, SPLIT(host, 'b') AS i, ARRAY_POSITION(codes, 404) AS j
FROM logs WHERE CARDINALITY(codes) > 1;
--- duckdb
VALUES ([200, 404, 1], [200], 200, [404, 200, 200], 2, [{'k': 'k', 'v': 'web1'}], true, [404], ['we', '1'], 2), ([200, 201, 1], [200, 201], 200, [201, 200], 2, [{'k': 'k', 'v': 'db1'}], false, [201], ['d', '1'], 0)
=== aggregates-of-the-page table
SELECT dept, COUNT(email) AS c, COUNT(DISTINCT salary) AS d, SUM(DISTINCT salary) AS s, AVG(salary) AS a, STDDEV_SAMP(CAST(salary AS DOUBLE)) AS sd, VAR_POP(CAST(salary AS DOUBLE)) AS vp, VAR_SAMP(CAST(salary AS DOUBLE)) AS vs, MIN(hired) AS h, LISTAGG(DISTINCT CAST(salary AS STRING), '/') AS l, COUNT(DISTINCT dept, salary) AS dd
FROM staff GROUP BY dept;
--- duckdb
SELECT dept, count(email), count(DISTINCT salary), sum(DISTINCT salary), CAST(floor(avg(salary)) AS INT), stddev_samp(salary), var_pop(salary), var_samp(salary), min(hired), CASE dept WHEN 'eng' THEN '9000/7000' WHEN 'ops' THEN '5000' ELSE '4000' END, count(DISTINCT (dept, salary)) FILTER (WHERE dept IS NOT NULL) FROM staff GROUP BY dept
=== over-range-and-lead table
SELECT id, salary, RANK() OVER (PARTITION BY dept ORDER BY salary DESC) AS r, DENSE_RANK() OVER (ORDER BY salary) AS d, NTILE(2) OVER (ORDER BY id) AS n, LEAD(name, 1, '-') OVER (PARTITION BY dept ORDER BY id) AS nx, CUME_DIST() OVER (ORDER BY salary) AS cd
FROM staff;
--- duckdb
SELECT id, salary, rank() OVER (PARTITION BY dept ORDER BY salary DESC), dense_rank() OVER (ORDER BY salary), ntile(2) OVER (ORDER BY id), lead(name, 1, '-') OVER (PARTITION BY dept ORDER BY id), cume_dist() OVER (ORDER BY salary) FROM staff
=== days-of-a-session-zone rows
SET 'table.local-time-zone' = 'Asia/Shanghai';
CREATE TABLE logs_tz (
  host STRING, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/logs.jsonl', 'format' = 'json');
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE logs_tz, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
--- duckdb
VALUES (TIMESTAMP '2026-05-04 00:00:00', 2), (TIMESTAMP '2026-05-05 00:00:00', 2)
=== drop-and-create-again rows
CREATE VIEW v1 AS SELECT order_id FROM orders WHERE status = 'void';
DROP VIEW v1;
CREATE VIEW v1 AS SELECT order_id, item FROM orders WHERE status = 'open';
SELECT * FROM v1;
--- duckdb
VALUES (2, 'book'), (6, 'book')
=== conditional-functions-of-the-page rows
SELECT CASE item WHEN 'pen', 'ink' THEN 'writing' ELSE 'reading' END AS a, 12 BETWEEN SYMMETRIC 15 AND 12 AS b, (qty > 3) IS UNKNOWN AS c, NULLIF(status, 'paid') AS d, IS_ALPHA(item) AS e, IS_DIGIT('1a') AS f, 4 NOT IN (1, 2, 3) AS g, GREATEST(qty, 2) AS h, item SIMILAR TO 'p(e|i)n' AS i, IF(qty IS NULL, -1, qty) AS j
FROM orders WHERE order_id IN (6, 7);
--- duckdb
VALUES ('reading', true, false, 'open', true, false, true, 2, false, 1), ('writing', true, true, NULL, true, false, true, NULL, false, -1)
