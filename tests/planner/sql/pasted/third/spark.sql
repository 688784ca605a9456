CREATE TABLE payments (pid INT, account STRING, amount DOUBLE, currency STRING, status STRING, ptime TIMESTAMP,
  WATERMARK FOR ptime AS ptime - INTERVAL 10 SECONDS) USING csv OPTIONS (path '${data}/payments.csv', header 'true');
CREATE TABLE fills (fid INT, pid INT, venue STRING, ftime TIMESTAMP,
  WATERMARK FOR ftime AS ftime) USING csv OPTIONS (path '${data}/fills.csv', header 'true');
CREATE TABLE clicks (user STRING, url STRING, cts TIMESTAMP, tags ARRAY<STRING>, props STRING, geo STRUCT<country: STRING, city: STRING>,
  WATERMARK FOR cts AS cts) USING json OPTIONS (path '${data}/clicks.jsonl');
CREATE TABLE staff (id INT, name STRING, dept STRING, salary INT, boss INT, hired DATE) USING CSV LOCATION '${data}/staff.csv';
CREATE TABLE depts (dept STRING, title STRING, budget INT) USING CSV LOCATION '${data}/depts.csv';
=== sliding-window rows
SELECT a.window.start AS s, a.window.end AS e, account, cnt
FROM (SELECT window(ptime, '10 minutes', '5 minutes') AS window, account, count(*) AS cnt FROM payments GROUP BY window(ptime, '10 minutes', '5 minutes'), account) a;
--- duckdb
SELECT s, s + INTERVAL 10 MINUTE, account, count(*) FROM payments, (SELECT unnest(generate_series(TIMESTAMP '2026-03-01 07:50:00', TIMESTAMP '2026-03-01 08:30:00', INTERVAL 5 MINUTE)) s) WHERE ptime >= s AND ptime < s + INTERVAL 10 MINUTE GROUP BY account, s
=== session-window rows
SELECT account, session_window.start AS s, session_window.end AS e, count(*) AS cnt FROM payments GROUP BY account, session_window(ptime, '3 minutes');
--- duckdb
WITH a AS (SELECT *, CASE WHEN ptime - lag(ptime) OVER (PARTITION BY account ORDER BY ptime) < INTERVAL 3 MINUTE THEN 0 ELSE 1 END n FROM payments), b AS (SELECT *, sum(n) OVER (PARTITION BY account ORDER BY ptime) g FROM a) SELECT account, min(ptime), max(ptime) + INTERVAL 3 MINUTE, count(*) FROM b GROUP BY account, g
=== inline-values rows
SELECT a, b FROM VALUES (1, 'x'), (2, 'y') AS t(a, b) WHERE a > 1;
--- duckdb
VALUES (2, 'y')
=== explode-select rows
SELECT user, explode(tags) AS tag FROM clicks;
--- duckdb
SELECT "user", unnest(tags) FROM clicks
=== lateral-view-map rows
SELECT pid, k, v FROM payments LATERAL VIEW explode(map('acc', account, 'st', status)) t AS k, v WHERE pid = 1;
--- duckdb
VALUES (1, 'acc', 'a1'), (1, 'st', 'ok')
=== stack-rows rows
SELECT pid, key, value FROM payments LATERAL VIEW stack(2, 'acc', account, 'st', status) s AS key, value WHERE pid < 3;
--- duckdb
VALUES (1, 'acc', 'a1'), (1, 'st', 'ok'), (2, 'acc', 'a2'), (2, 'st', 'ok')
=== star-except table
SELECT * EXCEPT (boss, hired) FROM staff WHERE id < 3;
--- duckdb
SELECT id, name, dept, salary FROM staff WHERE id < 3
=== unpivot table
SELECT * FROM (SELECT id, salary, boss FROM staff) UNPIVOT (val FOR what IN (salary AS pay, boss AS chief));
--- duckdb
SELECT id, 'pay', salary FROM staff UNPIVOT (x FOR y IN (boss)) WHERE false UNION ALL SELECT id, 'pay', salary FROM staff WHERE salary IS NOT NULL UNION ALL SELECT id, 'chief', boss FROM staff WHERE boss IS NOT NULL
=== pivot-aggs table
SELECT * FROM (SELECT account, status, amount FROM payments) PIVOT (sum(amount) AS a, count(*) AS c FOR status IN ('ok', 'failed'));
--- duckdb
SELECT account, sum(amount) FILTER (WHERE status = 'ok'), count(*) FILTER (WHERE status = 'ok'), sum(amount) FILTER (WHERE status = 'failed'), nullif(count(*) FILTER (WHERE status = 'failed'), 0) FROM payments GROUP BY account
=== qualify-and-named-window table
SELECT name, dept, salary FROM staff QUALIFY rank() OVER (PARTITION BY dept ORDER BY salary DESC) = 1;
--- duckdb
SELECT name, dept, salary FROM staff QUALIFY rank() OVER (PARTITION BY dept ORDER BY salary DESC) = 1
=== lateral-alias table
SELECT salary * 2 AS dbl, dbl + 1 AS plus FROM staff WHERE id < 3;
--- duckdb
VALUES (240, 241), (200, 201)
=== map-builtins-one rows
SELECT map_from_arrays(array(1, 2), array('a', 'b'))[2] AS a, map_concat(map('x', 1), map('y', 2))['y'] AS b, map_from_entries(array(struct('q', 7)))['q'] AS d, element_at(map('e', 3), 'e') AS e, map_contains_key(map('e', 3), 'z') AS f,
  map_filter(map('a', 1, 'b', 2), (k, v) -> v > 1) AS g, transform_values(map('a', 1), (k, v) -> v + 1) AS h, transform_keys(map('a', 1), (k, v) -> upper(k)) AS i, size(map('a', 1)) AS j
FROM payments WHERE pid = 1;
--- duckdb
VALUES ('b', 2, 7, 3, false, ['(''b'', 2)'], ['(''a'', 2)'], ['(''A'', 1)'], 1)
=== date-builtins-two rows
SELECT date_format(ptime, 'yyyy/MM/dd HH') AS a, to_date('2026-02-03') AS b, to_timestamp('2026-02-03 04:05:06') AS c, unix_timestamp(ptime) AS d, from_unixtime(0, 'yyyy-MM-dd') AS e, date_diff(DATE '2026-03-05', DATE '2026-03-01') AS f, year(ptime) AS g, dayofweek(ptime) AS h, weekday(ptime) AS i, extract(MONTH FROM ptime) AS j,
  timestamp_seconds(60) AS k, timestamp_millis(1500) AS l, date_part('minute', ptime) AS m, unix_date(DATE '1970-01-11') AS n, dateadd(DAY, 2, DATE '2026-01-01') AS o, to_date('05.01.2026', 'dd.MM.yyyy') AS p, quarter(ptime) AS q, date_from_unix_date(3) AS r, unix_millis(ptime) AS s, timestampdiff(HOUR, TIMESTAMP '2026-03-01 00:00:00', ptime) AS t
FROM payments WHERE pid = 3;
--- duckdb
VALUES ('2026/03/01 08', DATE '2026-02-03', TIMESTAMP '2026-02-03 04:05:06', 1772352070, '1970-01-01', 4, 2026, 1, 6, 3, TIMESTAMP '1970-01-01 00:01:00', TIMESTAMP '1970-01-01 00:00:01.5', 1, 10, TIMESTAMP '2026-01-03', DATE '2026-01-05', 1, DATE '1970-01-04', 1772352070000, 8)
=== string-builtins-two rows
SELECT concat_ws('-', 'a', NULL, 'b') AS a, lpad('hi', 5, '??') AS b, rpad('hi', 3) AS c, regexp_extract_all('100-200, 300-400', '(\\d+)-(\\d+)', 1) AS d, 'abc' RLIKE '^a' AS e, split('oneAtwoBthree', '[AB]', 2) AS f, soundex('Miller') AS g, levenshtein('kitten', 'sitting') AS h, substr('Spark SQL', 5, 1) AS i, repeat('12', 2) AS j,
  octet_length('abc') AS k, sha1('Spark') AS m, sha2('Spark', 256) AS n, unbase64('U3Bhcms=') = 'Spark' AS o, contains('Spark SQL', 'SQL') AS p, endswith('Spark', 'rk') AS q, split_part('11.12.13', '.', 3) AS r, find_in_set('ab', 'abc,b,ab,c,def') AS s, url_encode('a b') AS t, parse_url('http://spark.apache.org/path?query=1', 'HOST') AS u, bit_length('abc') AS v, reverse('abc') AS w
FROM payments WHERE pid = 1;
--- duckdb
VALUES ('a-b', '???hi', 'hi ', ['100', '300'], true, ['one', 'twoBthree'], 'M460', 3, 'k', '1212', 3, '85f5955f4b27a9a4c2aab6ffe5d7189fc298b92c', '529bc3b07127ecb7e53a4dcf1991d9152c24537d919178022b2c42657f79a26b', true, true, true, '13', 3, 'a+b', 'spark.apache.org', 24, 'cba')
=== aggregates-two table
SELECT dept, count_if(salary > 90) AS a, bool_and(salary > 90) AS b, some(salary > 110) AS c, first(name) AS d, last(name) AS e, min_by(name, salary) AS f, mode(salary) AS g, median(salary) AS h, percentile_approx(salary, array(0.0, 1.0)) AS i, bit_xor(id) AS j, array_agg(id) AS k, grouping_id(dept) AS l, string_agg(name, '+') AS m, try_sum(salary) AS n, kurtosis(salary) AS o
FROM staff WHERE dept = 'eng' GROUP BY CUBE (dept) HAVING dept IS NOT NULL;
--- duckdb
VALUES ('eng', 3, true, true, 'Ada', 'Flo', 'Bo', 100, 110, [100, 120], 5, [1, 2, 6], 0, 'Ada+Bo+Flo', 330, -1.5)
=== window-functions-two table
SELECT name, ntile(2) OVER (PARTITION BY dept ORDER BY salary, id) AS nt, nth_value(name, 2) OVER (PARTITION BY dept ORDER BY salary, id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS nv, percent_rank() OVER (PARTITION BY dept ORDER BY salary) AS pr,
  first_value(boss) IGNORE NULLS OVER (PARTITION BY dept ORDER BY salary DESC, id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS fv, sum(salary) OVER (PARTITION BY dept ORDER BY salary, id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s
FROM staff;
--- duckdb
SELECT name, ntile(2) OVER (PARTITION BY dept ORDER BY salary, id), nth_value(name, 2) OVER (PARTITION BY dept ORDER BY salary, id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING), percent_rank() OVER (PARTITION BY dept ORDER BY salary), first_value(boss IGNORE NULLS) OVER (PARTITION BY dept ORDER BY salary DESC, id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING), sum(salary) OVER (PARTITION BY dept ORDER BY salary, id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM staff
=== json-two rows
SELECT pid, from_json('{"a":1, "b":{"c":"x"}}', 'STRUCT<a: INT, b: STRUCT<c: STRING>>').b.c AS a, to_json(named_struct('a', 1, 'b', 'two')) AS b, json_array_length('[1,2,3]') AS c, json_object_keys('{"k1": 1, "k2": 2}') AS d, get_json_object('{"a":{"b":[1,2]}}', '$.a.b[1]') AS e, j.c0, j.c1
FROM payments LATERAL VIEW json_tuple('{"x":"1","y":"2"}', 'x', 'y') j AS c0, c1 WHERE pid = 1;
--- duckdb
VALUES (1, 'x', '{"a":1,"b":"two"}', 3, ['k1', 'k2'], '2', '1', '2')
=== higher-order-two rows
SELECT zip_with(array(1, 2), array(10, 20), (x, y) -> x + y) AS a, array_sort(array('b', NULL, 'a')) AS b, arrays_zip(array(1, 2), array('x', 'y')) AS c, sequence(1, 5, 2) AS d, flatten(array(array(1), array(2, 3))) AS e, array_repeat('z', 2) AS f, array_union(array(1, 2), array(2, 3)) AS g, array_except(array(1, 2), array(2)) AS h, array_compact(array(1, NULL, 3)) AS i, array_insert(array(1, 2), 2, 9) AS j, array_append(array(1), 2) AS k, array_min(array(3, 1)) AS l, reduce(array(1, 2, 3), 0, (acc, x) -> acc + x) AS m, get(array(1, 2), 5) AS o
FROM payments WHERE pid = 1;
--- duckdb
VALUES ([11, 22], ['a', 'b', NULL], [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'y'}], [1, 3, 5], [1, 2, 3], ['z', 'z'], [1, 2, 3], [1], [1, 3], [1, 9, 2], [1, 2], 1, 6, NULL)
=== higher-order-three rows
SELECT zip_with(array(1, 2), array(10, 20), (x, y) -> x + y) AS a, sequence(1, 5, 2) AS d, array_repeat('z', 2) AS f, array_compact(array(1, NULL, 3)) AS i, array_insert(array(1, 2), 2, 9) AS j, get(array(1, 2), 5) AS o
FROM payments WHERE pid = 1;
--- duckdb
VALUES ([11, 22], [1, 3, 5], ['z', 'z'], [1, 3], [1, 9, 2], NULL)
=== casts rows
SELECT '5'::INT AS a, int('7') AS b, double('1.5') AS c, string(5) AS d, date('2026-01-02') AS e, bigint(2.9D) AS f, timestamp('2026-01-02 03:04:05') AS g, boolean('true') AS h, try_cast('x' AS INT) AS i, CAST(1 AS BOOLEAN) AS j, CAST('2026-01-02' AS DATE) + 1 AS k, 1.5D + 1L AS l, 3S AS m
FROM payments WHERE pid = 1;
--- duckdb
VALUES (5, 7, 1.5, '5', DATE '2026-01-02', 2, TIMESTAMP '2026-01-02 03:04:05', true, NULL, true, DATE '2026-01-03', 2.5, 3)
=== conditionals rows
SELECT nvl(currency, 'none') AS a, nvl2(currency, 'y', 'n') AS b, nullif(status, 'ok') AS c, decode(status, 'ok', 1, 'failed', 2, 0) AS d, if(amount > 50, 1, 0) AS e, coalesce(NULL, currency, '-') AS f, CASE WHEN currency IS NULL THEN 'nil' END AS g, currency <=> NULL AS h, greatest(1, NULL, 3) AS i, nanvl(CAST('nan' AS DOUBLE), 9) AS j, zeroifnull(NULL) AS k, nullifzero(0) AS l
FROM payments WHERE pid IN (4, 8);
--- duckdb
VALUES ('none', 'n', NULL, 1, 0, '-', 'nil', true, 3, 9, 0, NULL), ('USD', 'y', 'pending', 0, 0, 'USD', NULL, false, 3, 9, 0, NULL)
=== math-two rows
SELECT 7 div 2 AS a, 7 % -3 AS b, 5 & 3 AS c, 5 | 3 AS d, 5 ^ 3 AS e, ~5 AS f, shiftright(8, 2) AS g, rint(2.5) AS h, signum(-2) AS i, negative(3) AS j, expm1(0) AS k, log1p(0) AS l, width_bucket(5.35, 0.024, 10.06, 5) AS m, isnan(CAST('NaN' AS DOUBLE)) AS n, hex(17) AS o, try_divide(1, 0) AS q, floor(-1.1) AS r, round(25, -1) AS s, bit_count(7) AS t, positive(2) AS u, sec(0) AS v, ln(1) AS x, degrees(pi()) AS y
FROM payments WHERE pid = 1;
--- duckdb
VALUES (3, 1, 1, 7, 6, -6, 2, 2, -1, -3, 0, 0, 3, true, '11', NULL, -2, 30, 3, 2, 1, 0, 180)
=== semi-natural-using table
SELECT s.name, title FROM staff s JOIN depts USING (dept) WHERE s.id IN (SELECT boss FROM staff);
--- duckdb
SELECT name, title FROM staff JOIN depts USING (dept) WHERE id IN (SELECT boss FROM staff)
=== natural-join table
SELECT name, title FROM staff NATURAL JOIN depts;
--- duckdb
SELECT name, title FROM staff NATURAL JOIN depts
=== group-by-all-order-by-all table
SELECT dept, count(*) AS n FROM staff GROUP BY ALL ORDER BY ALL;
--- duckdb
SELECT dept, count(*) FROM staff GROUP BY ALL
=== cte-columns-broadcast table
WITH top(d, m) AS (SELECT dept, max(salary) FROM staff GROUP BY dept) SELECT /*+ BROADCAST(d) */ d.title, top.m FROM top JOIN depts d ON top.d = d.dept;
--- duckdb
SELECT title, max(salary) FROM staff JOIN depts USING (dept) GROUP BY title
=== create-temp-view-insert sink
CREATE OR REPLACE TEMPORARY VIEW good AS SELECT pid, account FROM payments WHERE status = 'ok';
CREATE TABLE good_sink (pid INT, account STRING) USING parquet LOCATION '${out}/good_sink';
INSERT INTO good_sink SELECT * FROM good;
--- duckdb
SELECT 'good_sink', pid, account FROM payments WHERE status = 'ok'
=== like-any-and-between rows
SELECT pid FROM payments WHERE account LIKE ANY ('%1', '%3') AND NOT status ILIKE 'FAIL%' AND amount NOT BETWEEN 8 AND 10;
--- duckdb
SELECT pid FROM payments WHERE (account LIKE '%1' OR account LIKE '%3') AND status NOT ILIKE 'FAIL%' AND amount NOT BETWEEN 8 AND 10
=== pipe-syntax table
FROM staff |> WHERE salary > 90 |> SELECT name, dept;
--- duckdb
SELECT name, dept FROM staff WHERE salary > 90
