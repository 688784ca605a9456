CREATE TABLE orders (order_id INT, customer STRING, item STRING, qty INT, price DOUBLE, currency STRING, status STRING, ordered_at TIMESTAMP, WATERMARK FOR ordered_at AS ordered_at - INTERVAL 5 SECONDS) USING csv OPTIONS (path '${data}/orders.csv', header 'true');
CREATE TABLE pays (pay_id STRING, order_id INT, amount DOUBLE, method STRING, paid_at TIMESTAMP, WATERMARK FOR paid_at AS paid_at - INTERVAL 5 SECONDS) USING csv OPTIONS (path '${data}/pays.csv', header 'true');
CREATE TABLE staff (id INT, name STRING, dept STRING, salary INT, boss INT, hired DATE, email STRING) USING csv OPTIONS (path '${data}/staff.csv', header 'true');
CREATE TABLE rates (currency STRING, rate DOUBLE, valid_from TIMESTAMP, WATERMARK FOR valid_from AS valid_from) USING csv OPTIONS (path '${data}/rates.csv', header 'true');
CREATE TABLE logs (host STRING, at TIMESTAMP, codes ARRAY<INT>, tags ARRAY<STRING>, dims STRUCT<cpu: DOUBLE, mem: STRUCT<used: INT, free: INT>>, spans ARRAY<STRUCT<op: STRING, ms: INT>>, raw STRING, WATERMARK FOR at AS at) USING json OPTIONS (path '${data}/logs.jsonl');
=== window-time-chain rows
SELECT window(window_time(w), '1 hour').start AS h, max(n) AS busiest FROM (
  SELECT window(ordered_at, '10 minutes') AS w, count(*) AS n FROM orders GROUP BY window(ordered_at, '10 minutes')
) GROUP BY window(window_time(w), '1 hour');
--- duckdb
SELECT date_trunc('hour', w) h, max(n) FROM (SELECT time_bucket(INTERVAL 10 MINUTE, ordered_at) w, count(*) n FROM orders GROUP BY w) GROUP BY h
=== sliding-window-by-item rows
SELECT window.start, window.end, item, sum(qty) AS total FROM orders WHERE status = 'paid' GROUP BY window(ordered_at, '1 hour', '30 minutes'), item;
--- duckdb
SELECT s, s + INTERVAL 1 HOUR, item, sum(qty) FROM orders, (SELECT unnest(generate_series(TIMESTAMP '2026-05-04 08:00:00', TIMESTAMP '2026-05-04 11:00:00', INTERVAL 30 MINUTE)) s) WHERE status = 'paid' AND ordered_at >= s AND ordered_at < s + INTERVAL 1 HOUR GROUP BY s, item
=== semi-anti-natural table
SELECT name FROM staff s LEFT ANTI JOIN (SELECT DISTINCT boss AS id FROM staff WHERE boss IS NOT NULL) b USING (id)
UNION ALL SELECT concat('boss ', name) FROM staff NATURAL JOIN (SELECT DISTINCT boss AS id FROM staff) b;
--- duckdb
VALUES ('Dov Lee'), ('Eve Ray'), ('Fay Oh'), ('boss Ada King'), ('boss Ben Ode'), ('boss Cleo Fox')
=== lateral-views-two rows
SELECT host, code, tag FROM logs LATERAL VIEW explode(codes) c AS code LATERAL VIEW explode(tags) t AS tag WHERE code <> 200;
--- duckdb
VALUES ('web1', 404, 'eu'), ('web1', 404, 'blue'), ('db1', 201, 'us'), ('db1', 201, 'green'), ('db1', 201, 'new')
=== explode-map-and-inline-outer rows
SELECT host, op, ms FROM logs LATERAL VIEW OUTER inline(spans) s AS op, ms
UNION ALL SELECT k, v, 0 FROM (SELECT explode(map('a', 'x', 'b', 'y')) AS (k, v) FROM logs WHERE host = 'db1');
--- duckdb
VALUES ('web1', 'get', 12), ('web1', 'put', 30), ('web2', NULL, NULL), ('web1', 'get', 8), ('db1', 'del', 5), ('db1', 'get', 9), ('db1', 'get', 11), ('a', 'x', 0), ('b', 'y', 0)
=== json-tuple-view rows
SELECT host, j.id, j.ok FROM logs LATERAL VIEW json_tuple(raw, 'id', 'ok') j AS id, ok WHERE raw IS NOT NULL AND host <> 'db1';
--- duckdb
VALUES ('web1', '7', 'true'), ('web2', '8', 'false')
=== higher-order-more rows
SELECT host, reduce(codes, 0, (a, x) -> a + x) AS s, array_sort(codes, (l, r) -> CASE WHEN l < r THEN 1 WHEN l > r THEN -1 ELSE 0 END) AS d, filter(codes, (x, i) -> i > 0) AS f, arrays_zip(codes, tags)[0].tags AS z,
  map_zip_with(map('a', 1), map('a', 2), (k, v1, v2) -> v1 + v2)['a'] AS mz, transform(spans, s -> s.ms * 2) AS ms, any_match AS am
FROM (SELECT *, exists(spans, s -> s.op = 'put') AS any_match FROM logs) WHERE size(codes) > 1;
--- duckdb
VALUES ('web1', 804, [404, 200, 200], [404, 200], 'eu', 3, [24, 60], true), ('db1', 401, [201, 200], [201], 'us', 3, [10, 18, 22], false)
=== array-builtins-rest rows
SELECT array_append(codes, 1) AS a, array_prepend(codes, 0) AS b, array_except(codes, array(404)) AS c, array_position(codes, 404) AS d, flatten(array(codes, array(9))) AS e, get(codes, 1) AS f, element_at(codes, -1) AS g, cardinality(codes) AS h, reverse(codes) AS i, array_join(tags, '|') AS j, array_min(codes) AS k, arrays_overlap(codes, array(201)) AS l, sequence(1, 7, 3) AS m, array_intersect(codes, array(200)) AS n, array_distinct(codes) AS o, array_contains(tags, 'eu') AS p
FROM logs WHERE host = 'web1' AND size(codes) > 0;
--- duckdb
VALUES ([200, 404, 200, 1], [0, 200, 404, 200], [200], 2, [200, 404, 200, 9], 404, 200, 3, [200, 404, 200], 'eu|blue', 200, false, [1, 4, 7], [200], [200, 404], true)
=== sequence-of-dates-and-down rows
SELECT sequence(DATE '2026-01-01', DATE '2026-03-01', INTERVAL 1 MONTH) AS a, sequence(5, 1, -2) AS b, sequence(3, 1) AS c, transform(sequence(0, 2), i -> date_add(DATE '2026-05-04', i)) AS d;
--- duckdb
VALUES ([DATE '2026-01-01', DATE '2026-02-01', DATE '2026-03-01'], [5, 3, 1], [3, 2, 1], [DATE '2026-05-04', DATE '2026-05-05', DATE '2026-05-06'])
=== try-arithmetic rows
SELECT order_id, try_add(qty, 1) AS a, try_subtract(qty, 1) AS b, try_multiply(qty, 2) AS c, try_divide(qty, 0) AS d, try_add(2147483647, 1) AS e, try_avg AS f, try_mod(qty, 0) AS g
FROM (SELECT order_id, qty, 1 AS try_avg FROM orders) WHERE order_id IN (1, 7);
--- duckdb
VALUES (1, 4, 2, 6, NULL, NULL, 1, NULL), (7, NULL, NULL, NULL, NULL, NULL, 1, NULL)
=== math-builtins-rest rows
SELECT bround(2.5, 0) AS a, ceil(-0.1) AS b, floor(3.7) AS c, pmod(-7, 3) AS d, hypot(3, 4) AS e, cbrt(27.0) AS f, rint(12.3456) AS g, shiftleft(2, 1) AS h, shiftright(4, 1) AS i, bit_count(7) AS j, width_bucket(5.3, 0.2, 10.6, 5) AS k, negative(1) AS l, factorial(5) AS m, log(10, 100) AS n, log1p(0) AS o, expm1(0) AS p, atan2(0, 3) AS q, conv('100', 2, 10) AS r, hex(17) AS s, bin(13) AS t, signum(-40) AS u, nanvl(cast('NaN' AS DOUBLE), 123) AS v, round(25, -1) AS w, 7 div 2 AS x, bit_get(11, 0) AS y, e() > 2.71 AS z, positive(3) AS z1, sec(0) AS z2, greatest(10, 9, 2) AS z3, cot(1) IS NOT NULL AS z4;
--- duckdb
VALUES (2, 0, 3, 2, 5, 3, 12, 4, 2, 3, 3, -1, 120, 2, 0, 0, 0, '4', '11', '1101', -1, 123, 30, 3, 1, true, 3, 1, 10, true)
=== string-builtins-rest rows
SELECT 'Spark' ilike '_Park' AS a, format_number(12332.123456, 4) AS b, position('bar', 'foobarbar', 5) AS c, bit_length('Spark SQL') AS d, octet_length('Spark SQL') AS e, lcase('SparkSql') AS f, ucase('SparkSql') AS g, replace('ABCabc', 'abc') AS h, decode(unbase64('U3BhcmsgU1FM'), 'UTF-8') AS i, split('oneAtwoBthreeC', '[ABC]', 2) AS j, split_part('11.12.13', '.', -1) AS k, regexp_instr('a1b2', '[0-9]') AS l, regexp_replace('100-200', '(\\d+)', 'num') AS m, substring_index('www.apache.org', '.', -2) AS n, overlay('Spark SQL' PLACING 'ANSI ' FROM 7 FOR 0) AS o, trim(BOTH 'SL' FROM 'SSparkSQLS') AS p, rpad('hi', 5, 'ab') AS q, char(65) AS r, concat_ws('/', 'a', array('b', 'c')) AS s, luhn_check('8112189876') AS t, substr('Spark SQL', -3) AS u, repeat('ab', 2) AS v, sha('Spark') AS w, printf('%d-%s', 7, 'x') AS x, elt(1, 'scala', 'java') AS y, sentences('Hi there! Bye.')[1][0] AS z;
--- duckdb
VALUES (true, '12,332.1235', 7, 72, 9, 'sparksql', 'SPARKSQL', 'ABC', 'Spark SQL', ['one', 'twoBthreeC'], '13', 2, 'num-num', 'apache.org', 'Spark ANSI SQL', 'parkSQ', 'hiaba', 'A', 'a/b/c', true, 'SQL', 'abab', '85f5955f4b27a9a4c2aab6ffe5d7189fc298b92c', '7-x', 'scala', 'Bye')
=== date-builtins-rest rows
SELECT id, date_add(hired, id) AS a, add_months(hired, id) AS b, dateadd(MONTH, 1, hired) AS c, datediff(DAY, hired, DATE '2026-01-01') AS d, months_between('1997-02-28 10:30:00', '1996-10-30') AS e, date_from_unix_date(1) AS f, trunc(hired, 'MM') AS g, extract(YEAROFWEEK FROM DATE '2021-01-02') AS h, weekday(hired) AS i, make_date(2013, 7, 15) AS j, hired + make_interval(0, 1, 0, 2) AS k, quarter(hired) AS l, dayofyear(hired) AS m, date_trunc('QUARTER', hired) AS n, to_date('31/12/2025', 'dd/MM/yyyy') AS o, datepart('WEEK', hired) AS p
FROM staff WHERE id IN (1, 2);
--- duckdb
VALUES (1, DATE '2019-03-01', DATE '2019-03-28', TIMESTAMP '2019-03-28 00:00:00', 2499, 3.94959677, DATE '1970-01-02', DATE '2019-02-01', 2020, 3, DATE '2013-07-15', DATE '2019-03-30', 1, 59, TIMESTAMP '2019-01-01 00:00:00', DATE '2025-12-31', 9), (2, DATE '2020-03-02', DATE '2020-04-29', TIMESTAMP '2020-03-29 00:00:00', 2133, 3.94959677, DATE '1970-01-02', DATE '2020-02-01', 2020, 5, DATE '2013-07-15', DATE '2020-03-31', 1, 60, TIMESTAMP '2020-01-01 00:00:00', DATE '2025-12-31', 9)
=== timestamp-builtins-rest rows
SELECT timestamp_micros(1230219000123123) AS a, timestamp_millis(1230219000123) AS b, unix_micros(TIMESTAMP '1970-01-01 00:00:01') AS c, unix_seconds(ordered_at) AS d, from_utc_timestamp('2016-08-31', 'Asia/Seoul') AS e, to_utc_timestamp('2016-08-31', 'Asia/Seoul') AS f, ordered_at + INTERVAL '1 02:03' DAY TO MINUTE AS g, ordered_at - INTERVAL 1 YEAR 2 MONTHS AS h, date_format(ordered_at, 'yyyy-MM-dd\'T\'HH:mm') AS i, from_unixtime(0, 'yyyy-MM-dd HH:mm:ss') AS j, unix_timestamp('2016-04-08', 'yyyy-MM-dd') AS k, hour(ordered_at) + minute(ordered_at) AS l, make_timestamp(2014, 12, 28, 6, 30, 45.887) AS m, to_timestamp('2016-12-31', 'yyyy-MM-dd') AS n, date_part('SECONDS', TIMESTAMP '2019-10-01 00:00:01.000001') AS o, convert_timezone('Europe/Brussels', 'America/Los_Angeles', TIMESTAMP_NTZ '2021-12-06 00:00:00') AS p
FROM orders WHERE order_id = 2;
--- duckdb
VALUES (TIMESTAMP '2008-12-25 15:30:00.123123', TIMESTAMP '2008-12-25 15:30:00.123', 1000000, 1777885400, TIMESTAMP '2016-08-31 09:00:00', TIMESTAMP '2016-08-30 15:00:00', TIMESTAMP '2026-05-05 11:06:20', TIMESTAMP '2025-03-04 09:03:20', '2026-05-04T09:03', '1970-01-01 00:00:00', 1460073600, 12, TIMESTAMP '2014-12-28 06:30:45.887', TIMESTAMP '2016-12-31 00:00:00', 1.000001, TIMESTAMP '2021-12-05 15:00:00')
=== aggregates-rest table
SELECT dept, any(salary > 6000) AS a, first(name) AS b, last(email, true) AS c, collect_list(id) FILTER (WHERE id > 1) AS d, regr_count(salary, id) AS e, std(salary) AS f, try_avg(salary) AS g, min_by(name, hired) AS h, percentile(salary, array(0.0, 0.5, 1.0)) AS i, covar_samp(salary, id) AS j, bit_and(salary) AS k, mode(salary) AS l, array_agg(boss) AS m, var_samp(salary) AS n, bool_or(email IS NULL) AS o, max(struct(salary, id)).id AS p, approx_count_distinct(salary, 0.1) AS q
FROM staff GROUP BY dept;
--- duckdb
VALUES (NULL, false, 'Fay Oh', 'fay@corp.example', [6], 1, NULL, 4000, 'Fay Oh', [4000, 4000, 4000], NULL, 4000, 4000, [3], NULL, false, 6, 1), ('eng', true, 'Ada King', 'eve@corp.example', [2, 5], 3, 1154.700538379, 7666.666666667, 'Ada King', [7000, 7000, 9000], -1666.666666667, 776, 7000, [1, 2], 1333333.333333333, false, 1, 2), ('ops', false, 'Cleo Fox', 'cleo.fox@corp.example', [3, 4], 2, 0, 5000, 'Cleo Fox', [5000, 5000, 5000], 0, 5000, 5000, [1, 3], 0, true, 4, 1)
=== analytic-functions-rest table
SELECT name, dept, RANK() OVER (PARTITION BY dept ORDER BY salary) AS rank, DENSE_RANK() OVER (PARTITION BY dept ORDER BY salary ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS dense_rank, round(CUME_DIST() OVER (PARTITION BY dept ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), 4) AS cume_dist, MIN(salary) OVER (PARTITION BY dept ORDER BY salary) AS min, LAG(salary) OVER (PARTITION BY dept ORDER BY id) AS lag, LEAD(salary, 1, 0) OVER (PARTITION BY dept ORDER BY id) AS lead, sum(salary) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near
FROM staff WHERE dept IS NOT NULL;
--- duckdb
SELECT name, dept, rank() OVER (PARTITION BY dept ORDER BY salary), dense_rank() OVER (PARTITION BY dept ORDER BY salary), round(cume_dist() OVER (PARTITION BY dept ORDER BY id), 4), min(salary) OVER (PARTITION BY dept ORDER BY salary), lag(salary) OVER (PARTITION BY dept ORDER BY id), lead(salary, 1, 0) OVER (PARTITION BY dept ORDER BY id), sum(salary) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM staff WHERE dept IS NOT NULL
=== from-to-json-and-csv rows
SELECT host, from_json(raw, 'id INT, user STRUCT<name: STRING, langs: ARRAY<STRING>>').user.langs AS l, to_json(named_struct('h', host, 'n', size(codes))) AS j, json_object_keys(raw) AS k, from_csv('1, 0.8', 'a INT, b DOUBLE').b AS b, to_csv(named_struct('a', 1, 'b', 'x')) AS c, schema_of_json('[{"col":0}]') AS s, to_json(map('a', codes)) AS m, from_json('[1,2]', 'array<int>') AS ar
FROM logs WHERE raw IS NOT NULL AND host <> 'db1';
--- duckdb
VALUES ('web1', ['de', 'en'], '{"h":"web1","n":3}', ['id', 'user', 'ok', 'score'], 0.8, '1,x', 'ARRAY<STRUCT<col: BIGINT>>', '{"a":[200,404,200]}', [1, 2]), ('web2', [], '{"h":"web2","n":1}', ['id', 'user', 'ok'], 0.8, '1,x', 'ARRAY<STRUCT<col: BIGINT>>', '{"a":[500]}', [1, 2])
=== pivot-two-columns table
SELECT * FROM (SELECT customer, item, status, qty FROM orders) PIVOT (sum(qty) AS q FOR (item, status) IN (('pen', 'paid') AS pen_paid, ('book', 'open') AS book_open));
--- duckdb
SELECT customer, sum(qty) FILTER (WHERE item = 'pen' AND status = 'paid'), sum(qty) FILTER (WHERE item = 'book' AND status = 'open') FROM orders GROUP BY customer
=== unpivot-with-nulls rows
SELECT id, kind, v FROM staff UNPIVOT INCLUDE NULLS (v FOR kind IN (salary AS pay, boss)) WHERE id < 3;
--- duckdb
VALUES (1, 'pay', 9000), (1, 'boss', NULL), (2, 'pay', 7000), (2, 'boss', 1)
=== set-ops-of-spark table
(SELECT dept FROM staff EXCEPT ALL SELECT dept FROM staff WHERE id IN (1, 3)) UNION DISTINCT SELECT 'hr' INTERSECT SELECT 'hr';
--- duckdb
VALUES ('eng'), ('ops'), (NULL), ('hr')
=== files-queried-directly rows
SELECT host, size(codes) AS n FROM json.`${data}/logs.jsonl` WHERE size(codes) > 0;
--- duckdb
VALUES ('web1', 3), ('web2', 1), ('db1', 2)
=== temp-view-using rows
CREATE TEMPORARY VIEW pay_view USING csv OPTIONS (path "${data}/pays.csv", header "true", inferSchema "true");
SELECT method, count(*) AS n, sum(amount) AS total FROM pay_view GROUP BY method;
--- duckdb
SELECT method, count(*), sum(amount) FROM pays GROUP BY method
=== ctas-with-location sink
CREATE TABLE cheap USING parquet LOCATION '${out}/cheap' AS SELECT order_id, price FROM orders WHERE price < 2;
--- duckdb
SELECT 'cheap', order_id, price FROM orders WHERE price < 2
=== insert-overwrite-directory sink
INSERT OVERWRITE DIRECTORY '${out}/paid' USING parquet SELECT order_id, customer FROM orders WHERE status = 'paid';
--- duckdb
SELECT 'paid', order_id, customer FROM orders WHERE status = 'paid'
=== pipe-operators-more table
FROM orders
|> WHERE qty IS NOT NULL
|> EXTEND qty * price AS cost
|> SET item = upper(item)
|> DROP currency, status
|> AGGREGATE sum(cost) AS total, count(*) AS n GROUP BY item
|> WHERE n > 1
|> ORDER BY total DESC
|> SELECT item, total;
--- duckdb
SELECT upper(item), sum(qty * price) FROM orders WHERE qty IS NOT NULL GROUP BY item HAVING count(*) > 1
=== casts-and-typed-literals rows
SELECT int('5') + 1 AS a, string(5) AS b, double('1.5') AS c, date('2026-01-01') AS d, boolean('true') AS e, bigint(7.9) AS f, 10L AS g, 1.5BD AS h, 1e3D AS i, 5S AS j, typeof(1) AS k, typeof('a') AS l, typeof(array(1.5D)) AS m, cast('12.345' AS DECIMAL(5, 2)) AS n, '7'::int AS o, hex(X'1F') AS p, timestamp('2026-05-04 01:02:03') AS q, cast(NULL AS STRING) AS r, cast(true AS INT) AS s, r'a\d' AS t;
--- duckdb
VALUES (6, '5', 1.5, DATE '2026-01-01', true, 7, 10, 1.5, 1000, 5, 'int', 'string', 'array<double>', 12.35, 7, '1F', TIMESTAMP '2026-05-04 01:02:03', NULL, 1, 'a\d')
=== star-except-and-aliases rows
SELECT * EXCEPT (currency, status, ordered_at, customer), qty * price AS cost, cost * 2 AS twice, struct(order_id, item).item AS it FROM orders WHERE order_id = 3;
--- duckdb
VALUES (3, 'ink', 2, 7.25, 14.5, 29, 'ink')
=== conditionals-of-spark rows
SELECT iff AS a, nvl2(boss, 'has', 'none') AS b, decode(dept, 'eng', 1, 'ops', 2, 0) AS c, ifnull(dept, '-') AS d, nullifzero(boss) AS e, zeroifnull(boss) AS f, equal_null(dept, NULL) AS g, coalesce(NULL, dept, 'z') AS h, isnull(dept) AS i, isnotnull(boss) AS j, CASE WHEN salary > 6000 THEN 'high' END AS k, nvl(dept, 'none') AS l, boss <=> 1 AS m
FROM (SELECT *, if(salary < 5000, 'low', 'ok') AS iff FROM staff) WHERE id IN (1, 6);
--- duckdb
VALUES ('ok', 'none', 1, 'eng', NULL, 0, false, 'eng', false, false, 'high', 'eng', false), ('low', 'has', 0, '-', 3, 3, true, 'z', true, true, NULL, 'none', false)
=== correlated-and-in-subqueries table
SELECT name FROM staff s WHERE salary > (SELECT avg(salary) FROM staff t WHERE t.dept = s.dept)
UNION ALL SELECT name FROM staff WHERE (dept, salary) IN (SELECT dept, max(salary) FROM staff GROUP BY dept) AND id > 1;
--- duckdb
VALUES ('Ada King'), ('Cleo Fox'), ('Dov Lee')
