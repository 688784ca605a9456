CREATE TABLE orders (order_id INT, customer_id INT, product STRING, amount DOUBLE, currency STRING, order_time TIMESTAMP,
  WATERMARK FOR order_time AS order_time - INTERVAL 10 SECONDS) USING csv OPTIONS (path '${data}/orders.csv', header 'true');
CREATE TABLE shipments (id INT, order_id INT, ship_time TIMESTAMP, WATERMARK FOR ship_time AS ship_time) USING csv OPTIONS (path '${data}/shipments.csv', header 'true');
CREATE TABLE customers (id INT, name STRING, city STRING, signup DATE) USING CSV LOCATION '${data}/customers.csv';
CREATE TABLE readings (sensor STRING, temp DOUBLE, ts TIMESTAMP, WATERMARK FOR ts AS ts) USING csv OPTIONS (path '${data}/readings.csv', header 'true');
CREATE TABLE events (id INT, ts TIMESTAMP, tags ARRAY<STRING>, nums ARRAY<INT>, attrs STRING, who STRUCT<name: STRING, age: INT>, line STRING, WATERMARK FOR ts AS ts) USING json OPTIONS (path '${data}/events.jsonl');
=== window-docs-one rows
SELECT sensor, window.start, window.end, count(*) as cnt FROM readings GROUP BY sensor, window(ts, '5 minutes') ORDER BY sensor, start;
--- duckdb
VALUES ('a', '2024-05-01T10:00:00', '2024-05-01T10:05:00', 3), ('a', '2024-05-01T10:05:00', '2024-05-01T10:10:00', 1), ('b', '2024-05-01T10:00:00', '2024-05-01T10:05:00', 2), ('b', '2024-05-01T10:05:00', '2024-05-01T10:10:00', 1)
=== window-docs-sliding rows
SELECT a, window.start, window.end, count(*) as cnt FROM VALUES ('A1', '2021-01-01 00:00:00'), ('A1', '2021-01-01 00:04:30'), ('A1', '2021-01-01 00:06:00'), ('A2', '2021-01-01 00:01:00') AS tab(a, b) GROUP by a, window(b, '10 minutes', '5 minutes') ORDER BY a, start;
--- duckdb
VALUES ('A1', '2020-12-31T23:55:00', '2021-01-01T00:05:00', 2), ('A1', '2021-01-01T00:00:00', '2021-01-01T00:10:00', 3), ('A1', '2021-01-01T00:05:00', '2021-01-01T00:15:00', 1), ('A2', '2020-12-31T23:55:00', '2021-01-01T00:05:00', 1), ('A2', '2021-01-01T00:00:00', '2021-01-01T00:10:00', 1)
=== session-window-docs rows
SELECT sensor, session_window.start, session_window.end, count(*) as cnt FROM readings GROUP by sensor, session_window(ts, '2 minutes') ORDER BY sensor, start;
--- duckdb
VALUES ('a', '2024-05-01T10:00:00', '2024-05-01T10:04:00', 3), ('a', '2024-05-01T10:06:00', '2024-05-01T10:08:00', 1), ('b', '2024-05-01T10:00:40', '2024-05-01T10:02:40', 1), ('b', '2024-05-01T10:03:10', '2024-05-01T10:05:10', 1), ('b', '2024-05-01T10:06:30', '2024-05-01T10:08:30', 1)
=== window-time-docs rows
SELECT sensor, window.start as start, window.end as end, window_time(window) as wt, cnt FROM (SELECT sensor, window, count(*) as cnt FROM readings GROUP BY sensor, window(ts, '5 minutes') ORDER BY sensor, window.start);
--- duckdb
SELECT sensor, w, w + INTERVAL 5 MINUTE, w + INTERVAL 5 MINUTE - INTERVAL 1 MICROSECOND, c FROM (SELECT sensor, time_bucket(INTERVAL 5 MINUTE, ts) w, count(*) c FROM readings GROUP BY ALL)
=== cte-docs table
WITH t(x, y) AS (SELECT 1, 2)
SELECT * FROM t WHERE x = 1 AND y = 2;
--- duckdb
VALUES (1, 2)
=== cte-nested-docs table
WITH t AS (
    WITH t2 AS (SELECT 1)
    SELECT * FROM t2
)
SELECT * FROM t;
--- duckdb
VALUES (1)
=== group-by-dealer table
CREATE TEMP VIEW dealer (id, city, car_model, quantity) AS VALUES
    (100, 'Fremont', 'Honda Civic', 10),
    (100, 'Fremont', 'Honda Accord', 15),
    (100, 'Fremont', 'Honda CRV', 7),
    (200, 'Dublin', 'Honda Civic', 20),
    (200, 'Dublin', 'Honda Accord', 10),
    (200, 'Dublin', 'Honda CRV', 3),
    (300, 'San Jose', 'Honda Civic', 5),
    (300, 'San Jose', 'Honda Accord', 8);
SELECT id, sum(quantity) AS sum, max(quantity) AS max FROM dealer GROUP BY id ORDER BY id;
--- duckdb
VALUES (100, 32, 15), (200, 33, 20), (300, 13, 8)
=== rollup-dealer table
CREATE TEMP VIEW dealer (id, city, car_model, quantity) AS VALUES
    (100, 'Fremont', 'Honda Civic', 10),
    (100, 'Fremont', 'Honda Accord', 15),
    (200, 'Dublin', 'Honda Civic', 20);
SELECT city, car_model, sum(quantity) AS sum FROM dealer
    GROUP BY city, car_model WITH ROLLUP
    ORDER BY city, car_model;
--- duckdb
VALUES (NULL, NULL, 45), ('Dublin', NULL, 20), ('Dublin', 'Honda Civic', 20), ('Fremont', NULL, 25), ('Fremont', 'Honda Accord', 15), ('Fremont', 'Honda Civic', 10)
=== filter-dealer table
CREATE OR REPLACE TEMPORARY VIEW dealer AS SELECT * FROM VALUES (100, 'Honda Civic', 10), (100, 'Honda CRV', 7), (200, 'Honda Civic', 20) AS d(id, car_model, quantity);
SELECT id, sum(quantity) FILTER (
            WHERE car_model IN ('Honda Civic', 'Honda CRV')
        ) AS `sum(quantity)`, any_value(id) AS av, first(car_model, true) AS f
FROM dealer
    GROUP BY id ORDER BY id;
--- duckdb
VALUES (100, 17, 100, 'Honda Civic'), (200, 20, 200, 'Honda Civic')
=== having-person table
CREATE TEMPORARY VIEW person AS SELECT * FROM VALUES (100, 'John', 30, 1, 'Street 1'), (200, 'Mary', NULL, 1, 'Street 2'), (300, 'Mike', 80, 3, 'Street 3'), (400, 'Dan', 50, 4, 'Street 4') AS t(id, name, age, class, address);
SELECT class, count(age) AS n FROM person GROUP BY class HAVING max(age) > 30 ORDER BY class;
--- duckdb
VALUES (3, 1), (4, 1)
=== pivot-person table
CREATE TEMPORARY VIEW person AS SELECT * FROM VALUES (100, 'John', 30, 1, 'Street 1'), (200, 'Mary', NULL, 1, 'Street 2'), (300, 'Mike', 80, 3, 'Street 3'), (400, 'Dan', 50, 4, 'Street 4') AS t(id, name, age, class, address);
SELECT * FROM person
    PIVOT (
        SUM(age) AS a, AVG(class) AS c
        FOR name IN ('John' AS john, 'Mike' AS mike)
    );
--- duckdb
VALUES (100, 'Street 1', 30, 1.0, NULL, NULL), (200, 'Street 2', NULL, NULL, NULL, NULL), (300, 'Street 3', NULL, NULL, 80, 3.0), (400, 'Street 4', NULL, NULL, NULL, NULL)
=== unpivot-sales table
CREATE TEMP VIEW sales_quarterly (year, q1, q2, q3, q4) AS VALUES (2020, null, 1000, 2000, 2500), (2021, 2250, 3200, 4200, 5900), (2022, 4200, 3100, null, null);
SELECT * FROM sales_quarterly
    UNPIVOT (
        sales FOR quarter IN (q1, q2, q3, q4)
    );
--- duckdb
VALUES (2020, 'q2', 1000), (2020, 'q3', 2000), (2020, 'q4', 2500), (2021, 'q1', 2250), (2021, 'q2', 3200), (2021, 'q3', 4200), (2021, 'q4', 5900), (2022, 'q1', 4200), (2022, 'q2', 3100)
=== lateral-view-person table
CREATE TEMP VIEW person AS SELECT * FROM VALUES (100, 'John', 30), (200, 'Mary', NULL) AS t(id, name, age);
SELECT * FROM person
    LATERAL VIEW EXPLODE(ARRAY(30, 60)) tableName AS c_age
    LATERAL VIEW EXPLODE(ARRAY(40, 80)) AS d_age;
--- duckdb
SELECT i, n, a, c, d FROM (VALUES (100, 'John', 30), (200, 'Mary', NULL)) t(i, n, a), (VALUES (30), (60)) u(c), (VALUES (40), (80)) v(d)
=== lateral-view-outer-posexplode rows
SELECT id, p, t FROM events LATERAL VIEW OUTER posexplode(tags) x AS p, t;
--- duckdb
VALUES (1, 0, 'a'), (1, 1, 'b'), (2, NULL, NULL), (3, 0, 'b'), (3, 1, 'c'), (3, 2, 'b')
=== explode-table-function table
SELECT * FROM explode(array(10, 20));
--- duckdb
VALUES (10), (20)
=== stack-docs table
SELECT stack(2, 1, 2, 3);
--- duckdb
VALUES (1, 2), (3, NULL)
=== inline-docs table
SELECT inline(array(struct(1, 'a'), struct(2, 'b')));
--- duckdb
VALUES (1, 'a'), (2, 'b')
=== json-tuple-docs table
SELECT json_tuple('{"a":1, "b":2}', 'a', 'b');
--- duckdb
VALUES ('1', '2')
=== window-employees table
CREATE TEMP VIEW employees AS SELECT * FROM VALUES ('Lisa', 'Sales', 10000, 35), ('Evan', 'Sales', 32000, 38), ('Fred', 'Engineering', 21000, 28), ('Alex', 'Sales', 30000, 33), ('Tom', 'Engineering', 23000, 33), ('Jane', 'Marketing', 29000, 28), ('Jeff', 'Marketing', 35000, 38), ('Paul', 'Engineering', 29000, 23), ('Chloe', 'Engineering', 23000, 25) AS t(name, dept, salary, age);
SELECT name, dept, salary, RANK() OVER (PARTITION BY dept ORDER BY salary) AS rank,
  DENSE_RANK() OVER (PARTITION BY dept ORDER BY salary ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS dense_rank,
  MIN(salary) OVER (PARTITION BY dept ORDER BY salary) AS min,
  LAG(salary) OVER (PARTITION BY dept ORDER BY salary, name) AS lag,
  LEAD(salary, 1, 0) OVER (PARTITION BY dept ORDER BY salary, name) AS lead FROM employees;
--- duckdb
SELECT name, dept, salary, rank() OVER w, dense_rank() OVER w, min(salary) OVER w, lag(salary) OVER (PARTITION BY dept ORDER BY salary, name), lead(salary, 1, 0) OVER (PARTITION BY dept ORDER BY salary, name) FROM (VALUES ('Lisa', 'Sales', 10000, 35), ('Evan', 'Sales', 32000, 38), ('Fred', 'Engineering', 21000, 28), ('Alex', 'Sales', 30000, 33), ('Tom', 'Engineering', 23000, 33), ('Jane', 'Marketing', 29000, 28), ('Jeff', 'Marketing', 35000, 38), ('Paul', 'Engineering', 29000, 23), ('Chloe', 'Engineering', 23000, 25)) t(name, dept, salary, age) WINDOW w AS (PARTITION BY dept ORDER BY salary)
=== ignore-nulls-window table
SELECT id, v, LEAD(v, 0) IGNORE NULLS OVER w lead, LAG(v, 0) IGNORE NULLS OVER w lag, NTH_VALUE(v, 2) IGNORE NULLS OVER w nth_value, FIRST_VALUE(v) IGNORE NULLS OVER w first_value, LAST_VALUE(v) IGNORE NULLS OVER w last_value
    FROM VALUES (0, NULL), (1, 'x'), (2, NULL), (3, 'y'), (4, NULL), (5, 'z'), (6, NULL) AS test_ignore_null(id, v)
    WINDOW w AS (ORDER BY id)
    ORDER BY id;
--- duckdb
VALUES (0, NULL, NULL, NULL, NULL, NULL, NULL), (1, 'x', 'x', 'x', NULL, 'x', 'x'), (2, NULL, NULL, NULL, NULL, 'x', 'x'), (3, 'y', 'y', 'y', 'y', 'x', 'y'), (4, NULL, NULL, NULL, 'y', 'x', 'y'), (5, 'z', 'z', 'z', 'y', 'x', 'z'), (6, NULL, NULL, NULL, 'y', 'x', 'z')
=== set-operators table
SELECT c FROM VALUES (3), (1), (2), (2), (3), (4) AS number1(c) EXCEPT SELECT c FROM VALUES (5), (1), (2), (2) AS number2(c);
--- duckdb
VALUES (3), (4)
=== minus-union table
SELECT c FROM VALUES (3), (1), (2) AS number1(c) MINUS SELECT c FROM VALUES (5), (1) AS number2(c) UNION ALL SELECT 9;
--- duckdb
VALUES (3), (2), (9)
=== semi-anti-docs table
SELECT * FROM customers LEFT SEMI JOIN orders ON customers.id = orders.customer_id AND orders.product = 'fig'
UNION ALL
SELECT * FROM customers ANTI JOIN orders ON customers.id = orders.customer_id;
--- duckdb
SELECT * FROM customers WHERE id IN (7, 11)
=== lateral-subquery table
SELECT * FROM customers, LATERAL (SELECT upper(name) AS u, length(city) AS n) WHERE id < 9;
--- duckdb
SELECT *, upper(name), length(city) FROM customers WHERE id < 9
=== lateral-subquery-agg table
SELECT c.name, t.total FROM customers c, LATERAL (SELECT sum(amount) AS total FROM orders o WHERE o.customer_id = c.id) t;
--- duckdb
VALUES ('Ann Lee', 32.5), ('Bob Ray', 15.5), ('Cyd Fox', 7.25), ('Dee Kay', NULL)
=== case-decode-docs rows
SELECT id, CASE WHEN id > 2 THEN 'bigger than 2' WHEN id = 2 THEN 'two' ELSE 'small' END AS c, decode(id, 1, 'one', 2, 'dos', 'other') AS d, nvl(who.age, 0) AS n, nvl2(who.age, 'has', 'none') AS n2, iff(id = 1, 'y', 'n') AS i, ifnull(who.age, -1) AS i2
FROM events;
--- duckdb
VALUES (1, 'small', 'one', 31, 'has', 'y', 31), (2, 'two', 'dos', 0, 'none', 'n', -1), (3, 'bigger than 2', 'other', 40, 'has', 'n', 40)
=== date-functions rows
SELECT date_format(order_time, 'EEEE') AS e, date_trunc('HOUR', order_time) AS h, trunc(DATE '2019-08-04', 'week') AS w, add_months('2016-08-31', 1) AS am, months_between('1997-02-28 10:30:00', '1996-10-30') AS mb, next_day('2015-01-14', 'TU') AS nd, last_day('2009-01-12') AS ld, datediff('2009-07-31', '2009-07-30') AS dd,
  date_add('2016-07-30', 1) AS da, make_date(2013, 7, 15) AS md, weekofyear('2008-02-20') AS wy, dayofweek('2009-07-30') AS dw, weekday('2009-07-30') AS wd, dayofyear('2016-04-09') AS dy, extract(DAYS FROM TIMESTAMP '2019-08-12 01:00:00') AS ex, date_part('YEAR', TIMESTAMP '2019-08-12 01:00:00.123456') AS dp, to_date('2016-12-31', 'yyyy-MM-dd') AS td, timestamp_seconds(1230219000) AS tss, unix_timestamp('2016-04-08', 'yyyy-MM-dd') AS ut, from_unixtime(0, 'yyyy-MM-dd HH:mm:ss') AS fu, date_diff(DAY, order_time, TIMESTAMP '2024-05-03 10:00:00') AS dfd
FROM orders WHERE order_id = 1;
--- duckdb
VALUES ('Wednesday', '2024-05-01T10:00:00', '2019-07-29', '2016-09-30', 3.94959677, '2015-01-20', '2009-01-31', 1, '2016-07-31', '2013-07-15', 8, 5, 3, 100, 12, 2019, '2016-12-31', '2008-12-25T15:30:00', 1460073600, '1970-01-01 00:00:00', 2)
=== string-functions rows
SELECT concat_ws(' ', 'Spark', 'SQL') AS a, substring_index('www.apache.org', '.', 2) AS b, regexp_extract('100-200', '(\\d+)-(\\d+)', 1) AS c, regexp_replace('100-200', '(\\d+)', 'num') AS d, split('oneAtwoBthreeC', '[ABC]') AS e, translate('AaBbCc', 'abc', '123') AS f, initcap('sPark sql') AS g, levenshtein('kitten', 'sitting') AS h, soundex('Miller') AS i, lpad('hi', 5, '??') AS j, rpad('hi', 1) AS k, instr('SparkSQL', 'SQL') AS l, format_number(12332.123456, 4) AS m, format_string('Hello World %d %s', 100, 'days') AS n, left('Spark SQL', 3) AS o, overlay('Spark SQL' PLACING '_' FROM 6) AS p, split_part('11.12.13', '.', 3) AS q, contains('Spark SQL', 'Spark') AS r, startswith('Spark SQL', 'Spark') AS s, btrim('    SparkSQL   ') AS t, find_in_set('ab', 'abc,b,ab,c,def') AS u, regexp_count('Steven Jones and Stephen Smith', 'Ste(v|ph)en') AS v, base64('Spark SQL') AS w, unbase64('U3BhcmsgU1FM') AS x, char(65) AS y, elt(1, 'scala', 'java') AS z, sentences('Hi there! Good morning.') AS aa
FROM events WHERE id = 1;
--- duckdb
VALUES ('Spark SQL', 'www.apache', '100', 'num-num', ['one', 'two', 'three', ''], 'A1B2C3', 'Spark Sql', 3, 'M460', '???hi', 'h', 6, '12,332.1235', 'Hello World 100 days', 'Spa', 'Spark_SQL', '13', true, true, 'SparkSQL', 3, 2, 'U3BhcmsgU1FM', 'Spark SQL', 'A', 'scala', [['Hi', 'there'], ['Good', 'morning']])
=== array-functions rows
SELECT array_contains(nums, 2) AS a, array_distinct(array(1, 2, 3, null, 3)) AS b, array_except(array(1, 2, 3), array(1, 3, 5)) AS c, array_intersect(array(1, 2, 3), array(1, 3, 5)) AS d, array_join(array('hello', null ,'world'), ' ', ',') AS e, array_max(nums) AS f, array_position(array(312, 773, 708, 708), 708) AS g, array_remove(array(1, 2, 3, null, 3), 3) AS h, array_repeat('123', 2) AS i, array_union(array(1, 2, 3), array(1, 3, 5)) AS j, arrays_overlap(array(1, 2, 3), array(3, 4, 5)) AS k, arrays_zip(array(1, 2), array('a', 'b')) AS l, element_at(nums, 1) AS m, flatten(array(array(1, 2), array(3, 4))) AS n, sequence(1, 5, 2) AS o, slice(array(1, 2, 3, 4), 2, 2) AS p, sort_array(array('b', 'd', null, 'c', 'a'), true) AS q, array_compact(array(1, 2, 3, null)) AS r, size(tags) AS s, get(nums, 0) AS t, array_append(array('b', 'd'), 'd') AS u, reverse(nums) AS v, cardinality(nums) AS w
FROM events WHERE id = 1;
--- duckdb
VALUES (true, [1, 2, 3, NULL], [2], [1, 3], 'hello , world', 3, 3, [1, 2, NULL], ['123', '123'], [1, 2, 3, 5], true, [{k: 1, v: 'a'}, {k: 2, v: 'b'}], 3, [1, 2, 3, 4], [1, 3, 5], [2, 3], [NULL, 'a', 'b', 'c', 'd'], [1, 2, 3], 2, 3, ['b', 'd', 'd'], [2, 1, 3], 3)
=== lambda-functions rows
SELECT transform(nums, x -> x + 1) AS a, transform(nums, (x, i) -> x + i) AS b, filter(nums, x -> x % 2 == 1) AS c, exists(nums, x -> x % 2 == 0) AS d, forall(nums, x -> x > 0) AS e, aggregate(nums, 0, (acc, x) -> acc + x) AS f, aggregate(nums, 0, (acc, x) -> acc + x, acc -> acc * 10) AS g, zip_with(array(1, 2, 3), array('a', 'b', 'c'), (x, y) -> concat(y, x)) AS h, array_sort(array(5, 6, 1), (left, right) -> case when left < right then -1 when left > right then 1 else 0 end) AS i, reduce(nums, 0, (acc, x) -> acc + x) AS j
FROM events WHERE id = 1;
--- duckdb
VALUES ([4, 2, 3], [3, 2, 4], [3, 1], true, true, 6, 60, ['a1', 'b2', 'c3'], [1, 5, 6], 6)
=== map-functions rows
SELECT map_keys(map(1, 'a', 2, 'b')) AS a, map_values(map(1, 'a', 2, 'b')) AS b, element_at(map(1, 'a', 2, 'b'), 2) AS c, map_contains_key(map(1, 'a', 2, 'b'), 1) AS d, map_entries(map(1, 'a', 2, 'b')) AS e, map_filter(map(1, 0, 2, 2, 3, -1), (k, v) -> k > v)[1] AS f, transform_values(map('a', 1, 'b', 2), (k, v) -> v + 1)['b'] AS g, map_concat(map(1, 'a'), map(3, 'c'))[3] AS h, map_from_arrays(array(1.0, 3.0), array('2', '4'))[1.0] AS i, size(map('a', 1, 'b', 2)) AS j, str_to_map('a:1,b:2,c:3', ',', ':')['b'] AS k, map_from_entries(array(struct(1, 'a'), struct(2, 'b')))[1] AS l
FROM events WHERE id = 1;
--- duckdb
VALUES ([1, 2], ['a', 'b'], 'b', true, [{k: 1, v: 'a'}, {k: 2, v: 'b'}], 0, 3, 'c', '2', 2, '2', 'a')
=== hash-math rows
SELECT md5('Spark') AS a, sha2('Spark', 256) AS b, sha1('Spark') AS c, crc32('Spark') AS d, hex(17) AS e, conv('100', 2, 10) AS f, conv('-10', 16, -10) AS g, decode(unhex('537061726B2053514C'), 'UTF-8') AS h, bin(13) AS i, bround(25, -1) AS j, ceil(3.1411, 3) AS k, e() AS l, factorial(5) AS m, hypot(3, 4) AS n, log(10, 100) AS o, pmod(10, 3) AS p, positive(1) AS q, rint(12.3456) AS r, round(2.5, 0) AS s, shiftright(4, 1) AS t, signum(-4) AS u, try_divide(3, 0) AS v, width_bucket(5.3, 0.2, 10.6, 5) AS w, greatest(10, 9, 2) AS x, least(10, 9, null) AS y, div(7, 2) AS z, 7 div 2 AS z2
FROM events WHERE id = 1;
--- duckdb
SELECT md5('Spark'), sha256('Spark'), '85f5955f4b27a9a4c2aab6ffe5d7189fc298b92c', 1557323817, '11', '4', '-16', 'Spark SQL', '1101', 20, 3.142, 2.718281828459045, 120, 5, 2, 1, 1, 12, 3, 2, -1, NULL, 3, 10, 9, 3, 3
=== correlated-scalar table
SELECT name, (SELECT count(*) FROM orders o WHERE o.customer_id = c.id) AS n FROM customers c WHERE c.signup < DATE '2024-01-01';
--- duckdb
VALUES ('Ann Lee', 3), ('Bob Ray', 2)
=== stream-stream-join rows
SELECT o.order_id, s.id FROM orders o JOIN shipments s ON o.order_id = s.order_id AND s.ship_time >= o.order_time AND s.ship_time <= o.order_time + interval 1 hour;
--- duckdb
VALUES (1, 101), (3, 103), (5, 104)
=== percentiles-aggs table
SELECT product, percentile(amount, 0.5) AS p, percentile_approx(amount, 0.5) AS pa, median(amount) AS m, mode(currency) AS mo, max_by(order_id, order_id) AS mb, count_if(amount > 5) AS ci, bool_or(amount > 15) AS bo, collect_set(currency) AS cs, array_agg(order_id) AS aa, approx_count_distinct(customer_id) AS ac, stddev_pop(amount) AS sd, skewness(amount) AS sk, sum(DISTINCT amount) AS sdi, listagg(order_id, ',') AS la
FROM orders WHERE product = 'apple' GROUP BY product;
--- duckdb
VALUES ('apple', 12.5, 12.5, 12.5, 'USD', 5, 3, false, ['USD', 'GBP'], [1, 4, 5], 2 + 1, 2.474873734, -0.707106781, 19.75, '1,4,5')
=== tvf-range table
SELECT id, id * 2 AS d FROM range(0, 6, 2);
--- duckdb
VALUES (0, 0), (2, 4), (4, 8)
=== create-mv-sql table
CREATE MATERIALIZED VIEW per_city COMMENT 'customers' AS SELECT city, count(*) AS n FROM customers WHERE city IS NOT NULL GROUP BY city;
SELECT * FROM per_city;
--- duckdb
VALUES ('Oslo', 2), ('Rome', 1)
=== dlt-streaming-table rows
CREATE OR REFRESH STREAMING TABLE big AS SELECT order_id, amount FROM STREAM(orders) WHERE amount > 10;
SELECT * FROM big;
--- duckdb
VALUES (1, 12.5), (3, 20), (5, 12.5)
