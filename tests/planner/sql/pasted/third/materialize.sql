CREATE TABLE payments (pid int, account text, amount numeric, currency text, status text, ptime timestamp with time zone,
  WATERMARK FOR ptime AS ptime - INTERVAL '10 seconds') WITH (path = '${data}/payments.csv');
CREATE TABLE fills (fid int, pid int, venue text, ftime timestamp with time zone, WATERMARK FOR ftime AS ftime) WITH (path = '${data}/fills.csv');
CREATE TABLE clicks ("user" text, url text, cts timestamp, tags text[], props jsonb, geo STRUCT<country text, city text>, WATERMARK FOR cts AS cts) WITH (path = '${data}/clicks.jsonl');
CREATE TABLE staff (id int, name text, dept text, salary int, boss int, hired date) WITH (path = '${data}/staff.csv');
CREATE TABLE depts (dept text, title text, budget int) WITH (path = '${data}/depts.csv');
=== subscribe table
SUBSCRIBE TO (SELECT account, count(*) AS n FROM payments GROUP BY account);
--- duckdb
SELECT account, count(*) FROM payments GROUP BY account
=== mv-in-cluster table
CREATE MATERIALIZED VIEW totals IN CLUSTER c1 AS SELECT account, sum(amount) AS total FROM payments GROUP BY account;
CREATE DEFAULT INDEX ON totals;
SELECT * FROM totals WHERE total > 20;
--- duckdb
SELECT account, sum(amount) FROM payments GROUP BY account HAVING sum(amount) > 20
=== group-size-option table
SELECT dept, max(salary) AS top FROM staff GROUP BY dept OPTIONS (AGGREGATE INPUT GROUP SIZE = 1000);
--- duckdb
SELECT dept, max(salary) FROM staff GROUP BY dept
=== list-functions rows
SELECT LIST[1, 2, 3][2] AS a, list_length(LIST['x', 'y']) AS b, list_append(LIST[1], 2) AS c, list_cat(LIST[1], LIST[2]) AS d, LIST[1, 2] || LIST[3] AS e, list_prepend(0, LIST[1]) AS f
FROM payments WHERE pid = 1;
--- duckdb
VALUES (2, 2, [1, 2], [1, 2], [1, 2, 3], [0, 1])
=== jsonb-agg table
SELECT dept, jsonb_agg(name ORDER BY id) AS a, jsonb_object_agg(name, salary) AS b, string_agg(name, '/' ORDER BY id DESC) AS c FROM staff WHERE dept = 'eng' GROUP BY dept;
--- duckdb
VALUES ('eng', '["Ada","Bo","Flo"]', '{"Ada":120,"Bo":100,"Flo":110}', 'Flo/Bo/Ada')
=== regexp-functions rows
SELECT regexp_split_to_array('a,b;c', '[,;]') AS a, regexp_match('foobar', 'o+') AS b, regexp_replace('abc', 'b', 'X') AS c, substring('hello', 2, 2) AS d, 'abc' LIKE 'a%' AS e, 'x' NOT LIKE 'y' AS f, starts_with('abc', 'ab') AS g, length('añb') AS h, bit_length('ab') AS i, translate('12', '1', 'a') AS j
FROM payments WHERE pid = 1;
--- duckdb
VALUES (['a', 'b', 'c'], ['oo'], 'aXc', 'el', true, true, true, 3, 16, 'a2')
=== time-functions rows
SELECT to_timestamp(0) AS a, extract(epoch FROM ptime) AS b, date_part('day', ptime) AS c, timezone('UTC', ptime) AS d, date_trunc('month', ptime) AS e, to_char(ptime, 'YYYY-MM-DD') AS f, ptime::date AS g, INTERVAL '90' MINUTE AS h, TIMESTAMP '2026-03-01 08:00:00' = ptime::timestamp AS i
FROM payments WHERE pid = 1;
--- duckdb
VALUES (TIMESTAMP '1970-01-01 00:00:00', 1772352000, 1, TIMESTAMP '2026-03-01 08:00:00', TIMESTAMP '2026-03-01 00:00:00', '2026-03-01', DATE '2026-03-01', INTERVAL '90 minutes', true)
=== lateral-series rows
SELECT s.name, g.i FROM staff s, LATERAL generate_series(1, s.id) AS g(i) WHERE s.id < 3;
--- duckdb
VALUES ('Ada', 1), ('Bo', 1), ('Bo', 2)
=== all-any-subqueries table
SELECT name FROM staff WHERE salary >= ALL (SELECT salary FROM staff) OR id = ANY (SELECT boss FROM staff WHERE boss > 1);
--- duckdb
VALUES ('Ada'), ('Cy')
=== table-command table
TABLE depts;
--- duckdb
SELECT * FROM depts
=== three-valued table
SELECT name, (boss > 1) IS UNKNOWN AS u, (boss > 1) IS NOT TRUE AS nt, coalesce(boss, 0) AS b, CASE WHEN boss = 1 THEN 'x' ELSE 'y' END AS c FROM staff;
--- duckdb
SELECT name, boss IS NULL, NOT coalesce(boss > 1, false), coalesce(boss, 0), CASE WHEN boss = 1 THEN 'x' ELSE 'y' END FROM staff
=== union-of-three table
SELECT name AS n FROM staff WHERE id = 1 UNION ALL SELECT title FROM depts UNION ALL SELECT dept FROM depts ORDER BY n;
--- duckdb
SELECT 'Ada' UNION ALL SELECT title FROM depts UNION ALL SELECT dept FROM depts
=== lateral-top-one table
SELECT d.title, t.name FROM depts d LEFT JOIN LATERAL (SELECT name FROM staff s WHERE s.dept = d.dept ORDER BY salary DESC, id LIMIT 1) t ON true;
--- duckdb
VALUES ('Engineering', 'Ada'), ('Operations', 'Cy'), ('People', NULL)
=== window-range-avg table
SELECT name, avg(salary) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a, rank() OVER (ORDER BY salary DESC) AS r, dense_rank() OVER (ORDER BY salary DESC) AS d FROM staff;
--- duckdb
SELECT name, avg(salary) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), rank() OVER (ORDER BY salary DESC), dense_rank() OVER (ORDER BY salary DESC) FROM staff
