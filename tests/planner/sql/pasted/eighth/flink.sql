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
=== distinct-and-in-list rows
SELECT DISTINCT customer, currency FROM orders WHERE status IN ('paid', 'open') AND NOT (item = 'ink' OR qty > 4);
--- duckdb
SELECT DISTINCT customer, currency FROM orders WHERE status IN ('paid', 'open') AND NOT (item = 'ink' OR qty > 4)
=== window-rollup rows
SELECT window_start, customer, item, SUM(qty) AS q
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '1' HOUR))
GROUP BY window_start, window_end, ROLLUP (customer, item);
--- duckdb
SELECT w, customer, item, sum(qty) FROM (SELECT *, date_trunc('hour', ordered_at) w FROM orders) GROUP BY GROUPING SETS ((w, customer, item), (w, customer), (w))
=== hop-named-with-offset rows
SELECT window_start, window_end, COUNT(*) AS n
FROM HOP(DATA => TABLE orders, TIMECOL => DESCRIPTOR(ordered_at), SLIDE => INTERVAL '30' MINUTES, SIZE => INTERVAL '1' HOUR, `OFFSET` => INTERVAL '10' MINUTES)
GROUP BY window_start, window_end;
--- duckdb
SELECT s, s + INTERVAL 1 HOUR, count(*) FROM orders, (SELECT unnest(generate_series(TIMESTAMP '2026-05-04 08:10:00', TIMESTAMP '2026-05-04 11:00:00', INTERVAL 30 MINUTE)) s) WHERE ordered_at >= s AND ordered_at < s + INTERVAL 1 HOUR GROUP BY s
=== rank-with-ties-top table
SELECT name, dept, salary, rk FROM (
  SELECT name, dept, salary, RANK() OVER (PARTITION BY dept ORDER BY salary DESC) AS rk FROM staff WHERE dept IS NOT NULL
) WHERE rk <= 2;
--- duckdb
SELECT name, dept, salary, rank() OVER (PARTITION BY dept ORDER BY salary DESC) rk FROM staff WHERE dept IS NOT NULL QUALIFY rk <= 2
=== match-optional-and-within rows
SELECT * FROM orders MATCH_RECOGNIZE (
  PARTITION BY customer ORDER BY ordered_at
  MEASURES FIRST(A.order_id) AS first_id, LAST(A.order_id) AS last_id, SUM(A.qty) AS total, B.order_id AS big
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
  PATTERN (A{2} B?) WITHIN INTERVAL '30' MINUTE
  DEFINE A AS A.price < 12, B AS B.price > 11
) AS M;
--- duckdb
VALUES ('ann', 1, 3, 5, 6), ('ann', 3, 6, 3, NULL)
=== temporal-two-tables rows
SELECT o.order_id, r.rate, s.name
FROM (SELECT *, PROCTIME() AS pt FROM orders) AS o
JOIN rates FOR SYSTEM_TIME AS OF o.ordered_at AS r ON o.currency = r.currency
LEFT JOIN staff FOR SYSTEM_TIME AS OF o.pt AS s ON o.qty = s.id AND s.salary > 4500;
--- duckdb
SELECT o.order_id, rate, name FROM orders o ASOF JOIN rates r ON o.currency = r.currency AND ordered_at >= valid_from LEFT JOIN staff s ON o.qty = s.id AND s.salary > 4500
=== full-interval-join rows
SELECT o.order_id AS o, p.pay_id AS p FROM orders o FULL OUTER JOIN pays p
ON o.order_id = p.order_id AND p.paid_at BETWEEN o.ordered_at AND o.ordered_at + INTERVAL '5' MINUTE;
--- duckdb
SELECT o.order_id, p.pay_id FROM orders o FULL JOIN pays p ON o.order_id = p.order_id AND paid_at BETWEEN ordered_at AND ordered_at + INTERVAL 5 MINUTE
=== scalar-subqueries table
SELECT name, salary - (SELECT AVG(salary) FROM staff) AS diff, (SELECT MAX(hired) FROM staff) AS latest FROM staff
WHERE salary = (SELECT MAX(salary) FROM staff s2 WHERE s2.dept = staff.dept);
--- duckdb
SELECT name, salary - 6166, DATE '2024-12-31' FROM staff WHERE salary = (SELECT max(salary) FROM staff s2 WHERE s2.dept = staff.dept)
=== over-two-keys rows
SELECT order_id, SUM(qty) OVER (PARTITION BY customer, currency ORDER BY ordered_at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s,
  FIRST_VALUE(item) OVER (PARTITION BY customer ORDER BY ordered_at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS f,
  MAX(price) OVER (PARTITION BY customer ORDER BY ordered_at RANGE BETWEEN INTERVAL '20' MINUTE PRECEDING AND CURRENT ROW) AS m
FROM orders;
--- duckdb
SELECT order_id, sum(qty) OVER (PARTITION BY customer, currency ORDER BY ordered_at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), first_value(item) OVER (PARTITION BY customer ORDER BY ordered_at), max(price) OVER (PARTITION BY customer ORDER BY ordered_at RANGE BETWEEN INTERVAL 20 MINUTE PRECEDING AND CURRENT ROW) FROM orders
=== view-with-comments table
CREATE VIEW IF NOT EXISTS rich (who COMMENT 'the name', pay) COMMENT 'well paid' AS SELECT name, salary FROM staff WHERE salary > 5000;
SELECT UPPER(who) AS who, pay * 12 AS year_pay FROM rich ORDER BY pay;
--- duckdb
SELECT upper(name), salary * 12 FROM staff WHERE salary > 5000
=== client-statements-around rows
RESET 'pipeline.name';
ADD JAR '/tmp/udf.jar';
USE CATALOG default_catalog;
SHOW JOBS;
ANALYZE TABLE orders COMPUTE STATISTICS FOR ALL COLUMNS;
SET 'table.exec.mini-batch.enabled' = 'true';
SELECT order_id FROM orders WHERE qty = 10;
--- duckdb
VALUES (4)
=== group-by-case-having table
SELECT CASE WHEN salary >= 7000 THEN 'high' ELSE 'low' END AS band, COUNT(*) AS n, MIN(name) AS first_name, COUNT(*) FILTER (WHERE email IS NULL) AS no_mail
FROM staff GROUP BY CASE WHEN salary >= 7000 THEN 'high' ELSE 'low' END HAVING SUM(salary) > 10000;
--- duckdb
SELECT CASE WHEN salary >= 7000 THEN 'high' ELSE 'low' END b, count(*), min(name), count(*) FILTER (WHERE email IS NULL) FROM staff GROUP BY b HAVING sum(salary) > 10000
=== lateral-top-two table
SELECT d.dept, t.name FROM (SELECT DISTINCT dept FROM staff WHERE dept IS NOT NULL) d,
LATERAL (SELECT name, salary FROM staff s WHERE s.dept = d.dept ORDER BY salary DESC, name LIMIT 2) AS t;
--- duckdb
SELECT dept, name FROM staff WHERE dept IS NOT NULL QUALIFY row_number() OVER (PARTITION BY dept ORDER BY salary DESC, name) <= 2
=== cast-to-rows-and-access rows
SELECT CAST((1, 'x') AS ROW<a INT, b STRING>).b AS b, CAST(ARRAY['1', '2'] AS ARRAY<INT>)[2] + 1 AS n, MAP['a', ARRAY[1, 2]]['a'][2] AS m, CARDINALITY(ARRAY[ARRAY[1], ARRAY[2, 3]]) AS c;
--- duckdb
VALUES ('x', 3, 2, 2)
=== time-differences rows
SELECT o.order_id, TIMESTAMPDIFF(MINUTE, o.ordered_at, TIMESTAMP '2026-05-04 10:00:00') AS m, CEIL(o.ordered_at TO MINUTE) AS c, o.ordered_at - INTERVAL '1' DAY AS y, CAST(o.ordered_at AS DATE) = DATE '2026-05-04' AS d, DATE_FORMAT(o.ordered_at, 'HH:mm') > '09:10' AS late, EXTRACT(DOY FROM o.ordered_at) AS doy
FROM orders o WHERE o.order_id IN (2, 9);
--- duckdb
VALUES (2, 56, TIMESTAMP '2026-05-04 09:04:00', TIMESTAMP '2026-05-03 09:03:20', true, false, 124), (9, -2, TIMESTAMP '2026-05-04 10:02:00', TIMESTAMP '2026-05-03 10:02:00', true, true, 124)
=== text-functions-third rows
SELECT name, SPLIT_INDEX(email, '@', 1) AS host, REGEXP_EXTRACT(email, '^([a-z.]+)@', 1) AS local_part, LOCATE('e', name) AS p, RPAD(dept, 5, '*') AS r, SUBSTRING(name, 1, 3) || '.' AS s, CONCAT(name, '/', dept) AS c, CHAR_LENGTH(email) AS n
FROM staff WHERE id IN (3, 4);
--- duckdb
VALUES ('Cleo Fox', 'corp.example', 'cleo.fox', 3, 'ops**', 'Cle.', 'Cleo Fox/ops', 21), ('Dov Lee', NULL, NULL, 6, 'ops**', 'Dov.', 'Dov Lee/ops', NULL)
=== json-of-logs rows
SELECT host, JSON_VALUE(raw, '$.user.langs[0]') AS l0, JSON_QUERY(raw, '$.user') AS u, JSON_EXISTS(raw, '$.score') AS s, JSON_VALUE(raw, '$.missing' DEFAULT 'none' ON EMPTY DEFAULT 'bad' ON ERROR) AS m, JSON_VALUE(raw, 'lax $.missing' DEFAULT 'none' ON EMPTY DEFAULT 'bad' ON ERROR) AS lm
FROM logs WHERE host = 'web1' AND raw IS NOT NULL;
--- duckdb
VALUES ('web1', 'de', '{"name":"Zoe","langs":["de","en"]}', true, 'bad', 'none')
=== percentile-and-collect table
SELECT dept, PERCENTILE(salary, ARRAY[0.0, 0.5, 1.0]) AS p, LISTAGG(name, ';') AS names, FIRST_VALUE(name) AS f, LAST_VALUE(name) AS l, COUNT(DISTINCT boss) AS b FROM staff WHERE dept = 'eng' GROUP BY dept;
--- duckdb
VALUES ('eng', [7000, 7000, 9000], 'Ada King;Ben Ode;Eve Ray', 'Ada King', 'Eve Ray', 2)
=== union-into-one-sink sink
CREATE TABLE all_ids (kind STRING, id STRING) WITH ('connector' = 'filesystem', 'path' = '${out}/all_ids', 'format' = 'parquet');
INSERT INTO all_ids
SELECT 'order', CAST(order_id AS STRING) FROM orders WHERE status = 'open'
UNION ALL
SELECT 'pay', pay_id FROM pays WHERE `method` = 'cash';
--- duckdb
VALUES ('all_ids', 'order', '2'), ('all_ids', 'order', '6'), ('all_ids', 'pay', 'p2'), ('all_ids', 'pay', 'p5')
=== window-join-of-aggregates rows
SELECT a.window_start, a.n AS orders_n, b.paid FROM (
  SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '30' MINUTES)) GROUP BY window_start, window_end) a
JOIN (
  SELECT window_start, window_end, SUM(amount) AS paid FROM TABLE(TUMBLE(TABLE pays, DESCRIPTOR(paid_at), INTERVAL '30' MINUTES)) GROUP BY window_start, window_end) b
ON a.window_start = b.window_start AND a.window_end = b.window_end WHERE b.paid > 5;
--- duckdb
VALUES ('2026-05-04T09:00:00', 7, 25), ('2026-05-04T09:30:00', 1, 24), ('2026-05-04T10:00:00', 1, 8)
=== order-by-time-limit table
SELECT order_id, ordered_at FROM orders ORDER BY ordered_at DESC LIMIT 3;
--- duckdb
SELECT order_id, ordered_at FROM orders ORDER BY ordered_at DESC LIMIT 3
=== arrays-third rows
SELECT host, ARRAY_CONCAT(tags, ARRAY['z']) AS c, ARRAY_APPEND(codes, 1) AS a, ARRAY_JOIN(tags, '-', '?') AS j, ARRAY_EXCEPT(tags, ARRAY['eu']) AS e, tags[CARDINALITY(tags)] AS last_tag, ARRAY_SLICE(codes, 1, 2) AS s, ARRAY_REVERSE(tags) AS r
FROM logs WHERE host = 'db1';
--- duckdb
VALUES ('db1', ['us', 'green', 'new', 'z'], [200, 201, 1], 'us-green-new', ['us', 'green', 'new'], 'new', [200, 201], ['new', 'green', 'us'])
