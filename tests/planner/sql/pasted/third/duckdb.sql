CREATE TABLE payments (pid INT, account VARCHAR, amount DECIMAL(10, 2), currency VARCHAR, status VARCHAR, ptime TIMESTAMP,
  WATERMARK FOR ptime AS ptime - INTERVAL 10 SECONDS) WITH (path = '${data}/payments.csv');
CREATE TABLE fills (fid INT, pid INT, venue VARCHAR, ftime TIMESTAMP, WATERMARK FOR ftime AS ftime) WITH (path = '${data}/fills.csv');
CREATE TABLE clicks ("user" VARCHAR, url VARCHAR, cts TIMESTAMP, tags VARCHAR[], props VARCHAR, geo STRUCT(country VARCHAR, city VARCHAR), WATERMARK FOR cts AS cts) WITH (path = '${data}/clicks.jsonl');
CREATE TABLE staff (id INT, name VARCHAR, dept VARCHAR, salary INT, boss INT, hired DATE) WITH (path = '${data}/staff.csv');
CREATE TABLE depts (dept VARCHAR, title VARCHAR, budget INT) WITH (path = '${data}/depts.csv');
=== from-first table
FROM staff WHERE salary > 90;
--- duckdb
=
=== from-select table
FROM staff SELECT name, dept WHERE id < 3;
--- duckdb
=
=== list-comprehension rows
SELECT pid, [x * 2 FOR x IN [1, 2, 3] IF x > 1] AS l FROM payments WHERE pid = 1;
--- duckdb
=
=== star-modifiers table
SELECT * EXCLUDE (boss, hired) REPLACE (salary * 2 AS salary) FROM staff;
--- duckdb
=
=== dot-chain-only rows
SELECT status.upper() AS s, account.replace('a', 'b').concat('!') AS t FROM payments;
--- duckdb
=
=== qualify table
SELECT dept, name FROM staff QUALIFY row_number() OVER (PARTITION BY dept ORDER BY salary DESC, id) = 1;
--- duckdb
=
=== asof rows
SELECT f.fid, p.pid FROM fills f ASOF JOIN payments p ON f.pid = p.pid AND f.ftime >= p.ptime;
--- duckdb
=
=== string-builtins-one rows
SELECT string_split('a-b', '-') AS a, regexp_extract('abc123', '([a-z]+)(\d+)', 2) AS b, regexp_extract_all('a1b2', '\d') AS c, printf('%s:%d', 'k', 3) AS e, starts_with('abc', 'a') AS f, levenshtein('duck', 'dark') AS g, left('abc', 2) AS h, chr(65) AS k, ord('A') AS l, instr('test', 'es') AS m, string_split_regex('a1b2c', '\d') AS n, regexp_matches('abc', 'b') AS o, ltrim('>>x', '>') AS p, repeat('a', 3) AS q, md5('a') AS s, trim('  a ') AS v, concat_ws('-', 'a', NULL, 'b') AS w, reverse('abc') AS x, 'a' || NULL AS y, length('añ') AS z
FROM payments WHERE pid = 1;
--- duckdb
=
=== date-builtins-one rows
SELECT date_trunc('month', ptime) AS a, datepart('hour', ptime) AS b, date_diff('minute', TIMESTAMP '2026-03-01 00:00:00', ptime) AS c, strftime(ptime, '%d.%m.%Y') AS d, strptime('2026-01-02', '%Y-%m-%d') AS e, epoch(ptime) AS f, epoch_ms(ptime) AS g, make_date(2026, 1, 2) AS h, monthname(ptime) AS i, dayname(ptime) AS j, time_bucket(INTERVAL 1 HOUR, ptime) AS k, last_day(ptime) AS l, isodow(ptime) AS m, yearweek(ptime) AS n, ptime + to_minutes(5) AS o, date_sub('hour', TIMESTAMP '2026-03-01 00:30:00', ptime) AS p, century(ptime) AS q, make_timestamp(2026, 1, 2, 3, 4, 5.5) AS r, DATE '2026-01-31' + INTERVAL 1 MONTH AS s, DATE '2026-03-01' - DATE '2026-01-01' AS t, to_timestamp(60) AS u, dayofweek(ptime) AS v, extract('year' FROM ptime) AS w, datediff('day', DATE '2026-01-01', DATE '2026-02-01') AS x, epoch_ms(1000) AS y, ptime::DATE AS z
FROM payments WHERE pid = 3;
--- duckdb
=
=== list-builtins-one rows
SELECT list_sort([3, 1, 2], 'DESC') AS a, list_unique([1, 1, 2]) AS b, list_filter([1, 2, 3], lambda x: x > 1) AS c, list_reduce([1, 2, 3], lambda a, b: a + b) AS d, range(3) AS e, flatten([[1], [2]]) AS f, list_contains([1, 2], 2) AS g, list_has_any([1, 2], [2]) AS h, [1, 2, 3][2:3] AS i, [1, 2, 3][-1] AS j, list_position([4, 5], 5) AS l, len([1, 2]) AS m, list_append([1], 2) AS n, list_reverse([1, 2]) AS o, array_length([1, 2]) AS q, generate_series(1, 3) AS r, list_distinct([1, 1]) AS s, list_concat([1], [2]) AS t, list_sum([1, 2]) AS u, list_avg([1, 2]) AS v, list_has_all([1, 2], [1]) AS w, list_slice([1, 2, 3], 1, 2) AS x, 2 IN [1, 2] AS y
FROM payments WHERE pid = 1;
--- duckdb
=
=== struct-map rows
SELECT {'a': 1, 'b': 'x'}.b AS a, struct_pack(p := 1).p AS b, MAP {'k': 5}['k'] AS c, map_keys(MAP {'k': 5}) AS d, struct_extract({'q': 7}, 'q') AS e, cardinality(MAP {'k': 5}) AS g, map_extract(MAP {'k': 5}, 'k') AS h, map(['a'], [1]) AS k, map_concat(MAP {'a': 1}, MAP {'b': 2})['b'] AS l
FROM payments WHERE pid = 1;
--- duckdb
VALUES ('x', 1, 5, ['k'], 7, 1, [5], ['(''a'', 1)'], 2)
=== casts rows
SELECT '5'::INT AS a, TRY_CAST('x' AS INT) AS b, 1.5::DECIMAL(4, 1) AS c, CASE 1 WHEN 1 THEN 'one' END AS d, ifnull(NULL, 3) AS e, 7 // 2 AS f, 2 ** 3 AS g, xor(5, 3) AS h, 'true'::BOOL AS k, 3::VARCHAR || 'x' AS l, '2026-01-01'::DATE AS n, 10 % 4 AS o, '1 day'::INTERVAL AS q, 'abc' GLOB 'a*' AS s, greatest(1, NULL, 2) AS t, least('b', 'a') AS u, nullif(1, 1) AS v, 1e3 AS x
FROM payments WHERE pid = 1;
--- duckdb
=
=== json-builtins rows
SELECT json_extract_string('{"a": {"b": 1}}', '$.a.b') AS a, json_array_length('[1, 2]') AS b, json_keys('{"k": 1}') AS c, json_valid('{') AS e, to_json([1, 2]) AS f, json_object('a', 1) AS g, '{"x": "y"}' ->> '$.x' AS h, '{"x": 5}'::JSON -> 'x' AS i, json_extract('{"l": [1, 2]}', '$.l[0]') AS j, '{"duck": [1, 2]}'::JSON ->> '$.duck[1]' AS l, json_contains('[1, 2]', '1') AS m, json_exists('{"a": 1}', '$.a') AS n, json_object('b', 2) AS o
FROM payments WHERE pid = 1;
--- duckdb
=
=== aggregates-one table
SELECT dept, list(name ORDER BY id) AS a, quantile_cont(salary, [0.25, 0.5]) AS c, geomean(salary) AS e, product(id) AS f, bit_xor(id) AS g, arg_min(name, salary) AS h, max(salary, 2) AS i, any_value(dept) AS j, fsum(salary) AS k, arg_max(name, salary, 2) AS l, string_agg(name, ', ' ORDER BY name DESC) AS m, bool_or(id > 5) AS n, count() AS o, var_samp(salary) AS p, first(name ORDER BY id DESC) AS r, sem(salary) AS s, min(name, 2) AS t, favg(salary) AS u, count_if(id > 1) AS v, kurtosis_pop(salary) AS w, quantile_disc(salary, 0.5) AS x
FROM staff WHERE dept = 'eng' GROUP BY dept;
--- duckdb
=
=== window-exclude table
SELECT name, sum(salary) OVER (PARTITION BY dept ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING ) AS s, lag(boss) OVER (PARTITION BY dept ORDER BY id) AS l, list(id) OVER (PARTITION BY dept) AS ids FROM staff WHERE dept IS NOT NULL;
--- duckdb
=
=== semi-anti table
SELECT title FROM depts SEMI JOIN staff USING (dept) UNION ALL SELECT title || '!' FROM depts ANTI JOIN staff USING (dept);
--- duckdb
=
=== union-by-name table
SELECT id, name FROM staff WHERE id < 3 UNION ALL BY NAME SELECT title AS name, budget FROM depts;
--- duckdb
=
=== cte-materialized table
WITH big AS MATERIALIZED (SELECT * FROM staff WHERE salary >= 100) SELECT dept, count(*) AS n FROM big GROUP BY ALL ORDER BY ALL;
--- duckdb
=
=== alias-reuse-where table
SELECT salary * 2 AS double_pay, double_pay + 1 AS more FROM staff WHERE salary > 100;
--- duckdb
=
=== grouping-sets-cube table
SELECT dept, boss, count(*) AS n FROM staff GROUP BY CUBE (dept, boss);
--- duckdb
=
=== lateral-join table
SELECT s.name, t.twice FROM staff s, LATERAL (SELECT s.salary * 2 AS twice) t;
--- duckdb
=
=== positional-order-limit table
SELECT name, salary FROM staff ORDER BY 2 DESC, 1 LIMIT 2;
--- duckdb
=
=== match-recognize rows
SELECT * FROM payments MATCH_RECOGNIZE (PARTITION BY account ORDER BY ptime MEASURES FIRST(A.pid) AS f, B.pid AS b PATTERN (A B) DEFINE A AS status = 'ok', B AS B.status <> 'ok');
--- duckdb
VALUES ('a1', 1, 3), ('a2', 2, 5), ('a3', 4, 8)
=== values-from table
SELECT v.k, s.name FROM (VALUES (1, 'x'), (2, 'y')) v(n, k) JOIN staff s ON s.id = v.n;
--- duckdb
=
=== inequality-join table
SELECT a.name, b.name AS other FROM staff a JOIN staff b ON a.salary > b.salary AND a.dept = b.dept;
--- duckdb
=
=== not-in-lists table
SELECT name FROM staff WHERE dept NOT IN ('ops') AND (id, salary) IN ((1, 120), (2, 100));
--- duckdb
=
