CREATE TABLE payments (pid INT, account VARCHAR, amount NUMERIC, currency VARCHAR, status VARCHAR, ptime TIMESTAMP,
  WATERMARK FOR ptime AS ptime - INTERVAL '10 seconds') WITH (connector = 'filesystem', path = '${data}/payments.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE fills (fid INT, pid INT, venue VARCHAR, ftime TIMESTAMP,
  WATERMARK FOR ftime AS ftime - INTERVAL '1 second') WITH (connector = 'filesystem', path = '${data}/fills.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE clicks ("user" VARCHAR, url VARCHAR, cts TIMESTAMP, tags VARCHAR[], props JSONB, geo STRUCT<country VARCHAR, city VARCHAR>,
  WATERMARK FOR cts AS cts - INTERVAL '5 seconds') WITH (connector = 'filesystem', path = '${data}/clicks.jsonl') FORMAT PLAIN ENCODE JSON;
CREATE TABLE staff (id INT PRIMARY KEY, name VARCHAR, dept VARCHAR, salary INT, boss INT, hired DATE) WITH (connector = 'filesystem', path = '${data}/staff.csv') FORMAT PLAIN ENCODE CSV;
CREATE TABLE depts (dept VARCHAR, title VARCHAR, budget INT) WITH (connector = 'filesystem', path = '${data}/depts.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE meters (meter VARCHAR, kwh DOUBLE PRECISION, mtime TIMESTAMPTZ, WATERMARK FOR mtime AS mtime) WITH (connector = 'filesystem', path = '${data}/meters.csv') FORMAT PLAIN ENCODE CSV;
=== eowc-tumble rows
CREATE MATERIALIZED VIEW window_count AS
SELECT window_start, account, COUNT(*) AS n, AVG(amount) AS mean
FROM TUMBLE(payments, ptime, INTERVAL '5 MINUTES')
GROUP BY window_start, account
EMIT ON WINDOW CLOSE;
SELECT * FROM window_count;
--- duckdb
SELECT time_bucket(INTERVAL 5 MINUTE, ptime) w, account, count(*), avg(amount) FROM payments GROUP BY w, account
=== sink-as-select sink
CREATE SINK s1 AS SELECT account, pid FROM payments WHERE amount > 50 WITH (connector = 'filesystem', path = '${out}/s1', type = 'append-only');
--- duckdb
SELECT 's1', account, pid FROM payments WHERE amount > 50
=== process-time-temporal-join rows
SELECT p.pid, d.name FROM payments p LEFT JOIN staff FOR SYSTEM_TIME AS OF PROCTIME() AS d ON p.pid = d.id;
--- duckdb
SELECT p.pid, d.name FROM payments p LEFT JOIN staff d ON p.pid = d.id
=== window-join rows
SELECT a.window_start, a.pid, b.fid FROM TUMBLE(payments, ptime, INTERVAL '5 MINUTES') a JOIN TUMBLE(fills, ftime, INTERVAL '5 MINUTES') b
ON a.pid = b.pid AND a.window_start = b.window_start;
--- duckdb
SELECT time_bucket(INTERVAL 5 MINUTE, ptime) w, p.pid, f.fid FROM payments p JOIN fills f ON p.pid = f.pid AND time_bucket(INTERVAL 5 MINUTE, ptime) = time_bucket(INTERVAL 5 MINUTE, ftime)
=== rank-top-n table
SELECT * FROM (SELECT name, dept, rank() OVER (PARTITION BY dept ORDER BY salary DESC) AS r FROM staff) WHERE r < 3;
--- duckdb
SELECT name, dept, rank() OVER (PARTITION BY dept ORDER BY salary DESC) r FROM staff QUALIFY r < 3
=== first-last-aggregates table
SELECT dept, first_value(name ORDER BY hired) AS f, last_value(name ORDER BY hired) AS l, array_agg(name ORDER BY id) FILTER (WHERE salary > 90) AS a FROM staff WHERE dept = 'eng' GROUP BY dept;
--- duckdb
VALUES ('eng', 'Ada', 'Flo', ['Ada', 'Bo', 'Flo'])
=== jsonb-builtins rows
SELECT jsonb_array_length('[1,2,3]'::jsonb) AS a, jsonb_extract_path_text('{"a":{"b":"x"}}'::jsonb, 'a', 'b') AS b, '{"a":{"b":5}}'::jsonb #>> '{a,b}' AS c, jsonb_build_object('k', 1, 'l', 'v') AS d, ('[10,20]'::jsonb -> 1)::int AS f, jsonb_typeof('[1]'::jsonb) AS g, '{"a":1}'::jsonb @> '{"a":1}'::jsonb AS i, to_jsonb(5) AS j
FROM payments WHERE pid = 1;
--- duckdb
VALUES (3, 'x', '5', '{"k":1,"l":"v"}', 20, 'array', true, '5')
=== jsonb-elements rows
SELECT pid, e.value FROM payments, jsonb_array_elements('[1,2]'::jsonb) AS e(value) WHERE pid < 3;
--- duckdb
SELECT pid, v FROM payments, (VALUES ('1'), ('2')) t(v) WHERE pid < 3
=== jsonb-each rows
SELECT "user", k, v FROM clicks CROSS JOIN jsonb_each_text(props) AS e(k, v) WHERE "user" = 'liz';
--- duckdb
VALUES ('liz', 'os', 'lin'), ('liz', 'n', '9')
=== array-builtins rows
SELECT array_cat(ARRAY[1], ARRAY[2, 3]) AS a, array_distinct(ARRAY[1, 1, 2]) AS b, array_sort(ARRAY[3, 1, 2]) AS c, array_max(ARRAY[1, 9]) AS d, array_sum(ARRAY[1, 2]) AS e, array_prepend(0, ARRAY[1]) AS f, array_replace(ARRAY[1, 2, 1], 1, 7) AS g, array_positions(ARRAY[1, 2, 1], 1) AS h, trim_array(ARRAY[1, 2, 3], 1) AS i, string_to_array('a,b', ',') AS j, array_upper(ARRAY[4, 5], 1) AS k, cardinality(ARRAY[1, 2]) AS l, (ARRAY['x', 'y'])[2] AS m, ARRAY[1, 2] @> ARRAY[2] AS n, array_contains(ARRAY[1, 2], ARRAY[1]) AS o, array_to_string(ARRAY['a', NULL, 'b'], '-', '*') AS q
FROM payments WHERE pid = 1;
--- duckdb
VALUES ([1, 2, 3], [1, 2], [1, 2, 3], 9, 3, [0, 1], [7, 2, 7], [1, 3], [1, 2], ['a', 'b'], 2, 2, 'y', true, true, 'a-*-b')
=== string-builtins rows
SELECT concat('a', 1, NULL) AS a, concat_ws(',', 'x', NULL, 'y') AS b, overlay('abcdef' PLACING 'ZZ' FROM 3 FOR 2) AS c, position('c' IN 'abc') AS d, strpos('high', 'ig') AS e, rpad('x', 3, 'ab') AS f, substr('hello', 2, 3) AS g, ltrim('xxa', 'x') AS h, char_length('abc') AS i, 'Foo' ~* 'foo' AS j, 'a' !~ 'b' AS k, ascii('x') AS l, trim(BOTH 'x' FROM 'xax') AS m, initcap('hi there') AS n, regexp_replace('foobarbaz', 'b..', 'X', 'g') AS o, quote_literal('it''s') AS p, lower('A') || upper('b') AS r, substring('foobar' FROM 'o(.)b') AS s, 'ab' ^@ 'a' AS t
FROM payments WHERE pid = 1;
--- duckdb
VALUES ('a1', 'x,y', 'abZZef', 3, 2, 'xab', 'ell', 'a', 3, true, true, 120, 'a', 'Hi There', 'fooXX', '''it''''s''', 'aB', 'o', true)
=== time-builtins rows
SELECT to_date('2026-01-05', 'YYYY-MM-DD') AS a, make_date(2026, 2, 3) AS b, '2026-03-01 00:00:00'::timestamp + INTERVAL '1 month' AS c, extract(isodow FROM ptime) AS d, to_timestamp('05 Jan 2026', 'DD Mon YYYY') AS e, ptime AT TIME ZONE 'UTC' AS f, date '2026-02-01' - date '2026-01-01' AS g, to_char(ptime, 'HH12:MI AM') AS h, date_trunc('week', ptime) AS i, extract(week FROM ptime) AS j, ptime > '2026-03-01' AS k
FROM payments WHERE pid = 1;
--- duckdb
VALUES (DATE '2026-01-05', DATE '2026-02-03', TIMESTAMP '2026-04-01 00:00:00', 7, TIMESTAMP '2026-01-05 00:00:00', TIMESTAMP '2026-03-01 08:00:00', 31, '08:00 AM', TIMESTAMP '2026-02-23 00:00:00', 9, true)
=== fetch-with-ties table
SELECT name, salary FROM staff ORDER BY salary DESC FETCH FIRST 2 ROWS ONLY;
--- duckdb
VALUES ('Ada', 120), ('Flo', 110)
=== operators rows
SELECT 5 # 3 AS a, 5 & 3 AS b, 1 << 3 AS c, |/ 25.0 AS d, 2 ^ 3 AS f, 7 % 3 AS g, pid IS NOT DISTINCT FROM 1 AS h, 'a' || 'b' AS i, (pid > 0) IS NOT TRUE AS j, 7 / 2 AS k, 7.0 / 2 AS l, -pid AS m, pid::text || 'x' AS n, CAST('1' AS smallint) AS o, '1.50'::numeric(4,2) AS p, 'true'::bool AS q, 1::float8 AS r, '2026-01-01'::date AS s, '3 days'::interval < INTERVAL '1 week' AS t
FROM payments WHERE pid = 1;
--- duckdb
VALUES (6, 1, 8, 5, 8, 1, true, 'ab', false, 3, 3.5, -1, '1x', 1, 1.5, true, 1, DATE '2026-01-01', true)
=== rollup table
SELECT dept, boss, count(*) AS n, grouping(dept, boss) AS g FROM staff GROUP BY ROLLUP (dept, boss);
--- duckdb
SELECT dept, boss, count(*), grouping(dept, boss) FROM staff GROUP BY ROLLUP (dept, boss)
=== approx-and-stats table
SELECT dept, approx_percentile(0.5, 0.01) WITHIN GROUP (ORDER BY salary) AS a, stddev_samp(salary) AS b, var_pop(salary) AS c, bool_and(salary > 90) AS d, max(name) AS e, count(DISTINCT salary) AS f FROM staff WHERE dept = 'ops' GROUP BY dept;
--- duckdb
VALUES ('ops', 80, 0, 0, false, 'Di', 1)
=== unnest-ordinality rows
SELECT "user", t.tag, t.n FROM clicks, unnest(tags) WITH ORDINALITY AS t(tag, n);
--- duckdb
SELECT "user", unnest(tags), generate_subscripts(tags, 1) FROM clicks
=== lag-lead-time rows
SELECT pid, amount - lag(amount, 1) OVER (PARTITION BY account ORDER BY ptime) AS diff, row_number() OVER (PARTITION BY account ORDER BY ptime) AS n FROM payments;
--- duckdb
SELECT pid, amount - lag(amount, 1) OVER (PARTITION BY account ORDER BY ptime), row_number() OVER (PARTITION BY account ORDER BY ptime) FROM payments
=== temporal-filter rows
SELECT * FROM payments WHERE ptime > NOW() - INTERVAL '1 hour';
--- duckdb
SELECT * FROM payments
=== subscription rows
CREATE SUBSCRIPTION sub FROM payments WITH (retention = '1D');
DECLARE cur SUBSCRIPTION CURSOR FOR sub;
--- duckdb
SELECT 1 WHERE false
=== map-and-struct rows
SELECT MAP {'a': 1, 'b': 2}['b'] AS a, map_from_entries(ARRAY[ROW('k', 5)])['k'] AS b, map_keys(MAP {'x': 1}) AS c, ROW(1, 'two') AS d, map_contains(MAP {'x': 1}, 'x') AS e
FROM payments WHERE pid = 1;
--- duckdb
VALUES (2, 5, ['x'], {'a': 1, 'b': 'two'}, true)
=== over-range-group rows
SELECT account, window_start, sum(sum(amount)) OVER (PARTITION BY account ORDER BY window_start ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running
FROM TUMBLE(payments, ptime, INTERVAL '5 minutes') GROUP BY account, window_start;
--- duckdb
SELECT account, w, sum(s) OVER (PARTITION BY account ORDER BY w ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM (SELECT account, time_bucket(INTERVAL 5 MINUTE, ptime) w, sum(amount) s FROM payments GROUP BY ALL)
