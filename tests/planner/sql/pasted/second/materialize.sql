CREATE TABLE payments (pid int, account text, amount numeric, currency text, status text, ptime timestamp with time zone,
  WATERMARK FOR ptime AS ptime - INTERVAL '10 seconds') WITH (path = '${data}/payments.csv');
CREATE TABLE fills (fid int, pid int, venue text, ftime timestamp with time zone, WATERMARK FOR ftime AS ftime) WITH (path = '${data}/fills.csv');
CREATE TABLE clicks ("user" text, url text, cts timestamp, tags text[], props jsonb, geo STRUCT<country text, city text>, WATERMARK FOR cts AS cts) WITH (path = '${data}/clicks.jsonl');
CREATE TABLE staff (id int, name text, dept text, salary int, boss int, hired date) WITH (path = '${data}/staff.csv');
CREATE TABLE depts (dept text, title text, budget int) WITH (path = '${data}/depts.csv');
=== view-and-index table
CREATE VIEW winning AS SELECT DISTINCT ON (account) account, pid, amount FROM payments ORDER BY account, amount DESC;
CREATE INDEX wins_by_account ON winning (account);
SELECT * FROM winning WHERE amount > 8;
--- duckdb
SELECT account, pid, amount FROM payments QUALIFY row_number() OVER (PARTITION BY account ORDER BY amount DESC) = 1 AND amount > 8
=== top-k-lateral table
SELECT grp.dept, name, salary FROM
  (SELECT DISTINCT dept FROM staff) grp,
  LATERAL (SELECT name, salary FROM staff WHERE dept = grp.dept ORDER BY salary DESC, id LIMIT 2);
--- duckdb
SELECT dept, name, salary FROM staff WHERE dept IS NOT NULL QUALIFY row_number() OVER (PARTITION BY dept ORDER BY salary DESC, id) <= 2
=== first-value-idiom table
SELECT s.dept, s.name, m.low FROM (SELECT dept, MIN(salary) AS low FROM staff GROUP BY dept) m
JOIN staff s ON s.dept = m.dept AND s.salary = m.low;
--- duckdb
SELECT s.dept, s.name, m.low FROM (SELECT dept, min(salary) low FROM staff GROUP BY dept) m JOIN staff s ON s.dept = m.dept AND s.salary = m.low
=== lag-idiom table
SELECT a.id, a.salary - b.salary AS delta FROM staff a LEFT JOIN staff b ON a.id = b.id + 1;
--- duckdb
SELECT a.id, a.salary - b.salary FROM staff a LEFT JOIN staff b ON a.id = b.id + 1
=== filter-aggregates table
SELECT count(*) FILTER (WHERE status = 'ok') AS ok, count(*) FILTER (WHERE status = 'failed') AS failed,
  sum(amount) FILTER (WHERE currency IS NULL) AS unknown FROM payments;
--- duckdb
SELECT count(*) FILTER (WHERE status = 'ok'), count(*) FILTER (WHERE status = 'failed'), sum(amount) FILTER (WHERE currency IS NULL) FROM payments
=== jsonb-each rows
SELECT "user", e.key, e.value FROM clicks, jsonb_each_text(props) AS e WHERE "user" = 'bob';
--- duckdb
VALUES ('bob', 'n', '5'), ('bob', 'os', 'win'), ('bob', 'n', '2'), ('bob', 'os', 'win')
=== jsonb-cast rows
SELECT "user", (props ->> 'n')::int + 1 AS n1, props @> '{"os": "mac"}' AS mac FROM clicks WHERE props IS NOT NULL;
--- duckdb
SELECT "user", CAST(props ->> '$.n' AS INT) + 1, coalesce(props ->> '$.os' = 'mac', false) FROM clicks WHERE props IS NOT NULL
=== list-agg table
SELECT dept, list_agg(name ORDER BY id) AS names, array_agg(salary ORDER BY id) AS s FROM staff GROUP BY dept;
--- duckdb
SELECT dept, list(name ORDER BY id), list(salary ORDER BY id) FROM staff GROUP BY dept
=== any-unnest table
SELECT s.name FROM staff s WHERE s.id = ANY (ARRAY[1, 3, 9]);
--- duckdb
SELECT name FROM staff WHERE id IN (1, 3, 9)
=== mutually-recursive table
WITH MUTUALLY RECURSIVE chain (id int, top int) AS (
  SELECT id, id FROM staff WHERE boss IS NULL
  UNION SELECT s.id, c.top FROM staff s, chain c WHERE s.boss = c.id)
SELECT * FROM chain;
--- duckdb
SELECT id, 1 FROM staff
=== except-all table
SELECT dept FROM depts EXCEPT SELECT dept FROM staff;
--- duckdb
SELECT dept FROM depts EXCEPT SELECT dept FROM staff
=== intersect table
SELECT dept FROM depts INTERSECT SELECT dept FROM staff;
--- duckdb
SELECT dept FROM depts INTERSECT SELECT dept FROM staff
=== date-bin-group table
SELECT date_bin('5 minutes', ptime, TIMESTAMP '2026-01-01 00:00:00') AS bucket, count(*) AS n FROM payments GROUP BY 1;
--- duckdb
SELECT time_bucket(INTERVAL 5 MINUTE, ptime), count(*) FROM payments GROUP BY 1
=== row-number-sub table
SELECT name, rn FROM (SELECT name, row_number() OVER (PARTITION BY dept ORDER BY hired DESC) AS rn FROM staff) WHERE rn = 1;
--- duckdb
SELECT name, 1 FROM staff QUALIFY row_number() OVER (PARTITION BY dept ORDER BY hired DESC) = 1
=== sum-over-unbounded table
SELECT name, sum(salary) OVER (PARTITION BY dept ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running FROM staff;
--- duckdb
SELECT name, sum(salary) OVER (PARTITION BY dept ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM staff
=== not-exists table
SELECT d.dept FROM depts d WHERE NOT EXISTS (SELECT FROM staff s WHERE s.dept = d.dept);
--- duckdb
VALUES ('hr')
=== full-outer table
SELECT coalesce(d.dept, s.dept) AS dept, s.name FROM depts d FULL OUTER JOIN staff s ON d.dept = s.dept;
--- duckdb
SELECT coalesce(d.dept, s.dept), s.name FROM depts d FULL OUTER JOIN staff s ON d.dept = s.dept
=== text-functions rows
SELECT pid, account || '-' || status AS k, lpad(pid::text, 3, '0') AS l, regexp_replace(status, '[aeiou]', '*', 'g') AS r, status ~ '^f' AS m, status ILIKE 'F%' AS il,
  btrim('  x ') AS b, position('e' IN status) AS p, octet_length(status) AS o, reverse(status) AS v, nullif(status, 'ok') AS ni, split_part(status, 'l', 1) AS s
FROM payments WHERE pid IN (1, 3);
--- duckdb
VALUES (1, 'a1-ok', '001', '*k', false, false, 'x', 0, 2, 'ko', NULL, 'ok'), (3, 'a1-failed', '003', 'f**l*d', true, true, 'x', 5, 6, 'deliaf', 'failed', 'fai')
=== numeric-functions rows
SELECT pid, round(amount, 1) AS r, trunc(amount) AS t, ceil(amount) AS c, mod(pid, 2) AS m, abs(-amount) AS a, power(pid, 2) AS p, amount::numeric(10, 2)::int AS i, sqrt(pid * pid) AS s, greatest(pid, 2) AS g
FROM payments WHERE pid IN (1, 3);
--- duckdb
VALUES (1, 10.5, 10, 11, 1, 10.5, 1, 11, 1, 2), (3, 100.0, 99, 100, 1, 99.99, 9, 100, 3, 3)
=== extract-and-age table
SELECT name, extract(year FROM hired) AS y, extract(dow FROM hired) AS dow, hired + 30 AS later, date_trunc('quarter', hired)::date AS q FROM staff;
--- duckdb
SELECT name, extract(year FROM hired), extract(dow FROM hired), hired + 30, date_trunc('quarter', hired)::DATE FROM staff
=== group-having-or table
SELECT account, count(*) AS n FROM payments GROUP BY account HAVING count(*) > 2 OR sum(amount) < 20;
--- duckdb
SELECT account, count(*) FROM payments GROUP BY account HAVING count(*) > 2 OR sum(amount) < 20
=== values-join table
SELECT s.name, v.label FROM staff s JOIN (VALUES ('eng', 'E'), ('ops', 'O')) AS v (dept, label) ON s.dept = v.dept;
--- duckdb
SELECT name, CASE dept WHEN 'eng' THEN 'E' ELSE 'O' END FROM staff WHERE dept IS NOT NULL
=== subquery-in-select table
SELECT d.title, (SELECT count(*) FROM staff s WHERE s.dept = d.dept) AS n, (SELECT max(salary) FROM staff) AS top FROM depts d;
--- duckdb
SELECT d.title, (SELECT count(*) FROM staff s WHERE s.dept = d.dept), 120 FROM depts d
=== temporal-filter now
SELECT pid FROM payments WHERE mz_now() <= ptime + INTERVAL '5 minutes';
--- duckdb
SELECT pid FROM payments WHERE ptime >= (SELECT max(ptime) FROM payments) - INTERVAL 5 MINUTE
=== window-percent table
SELECT dept, name, 100.0 * salary / sum(salary) OVER (PARTITION BY dept) AS share, avg(salary) OVER () AS mean FROM staff WHERE dept = 'eng';
--- duckdb
SELECT dept, name, 100.0 * salary / 330, 110 FROM staff WHERE dept = 'eng'
