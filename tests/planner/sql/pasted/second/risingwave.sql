CREATE TABLE payments (pid INT, account VARCHAR, amount NUMERIC, currency VARCHAR, status VARCHAR, ptime TIMESTAMP,
  WATERMARK FOR ptime AS ptime - INTERVAL '10 seconds') WITH (connector = 'filesystem', path = '${data}/payments.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE fills (fid INT, pid INT, venue VARCHAR, ftime TIMESTAMP,
  WATERMARK FOR ftime AS ftime - INTERVAL '1 second') WITH (connector = 'filesystem', path = '${data}/fills.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE clicks ("user" VARCHAR, url VARCHAR, cts TIMESTAMP, tags VARCHAR[], props JSONB, geo STRUCT<country VARCHAR, city VARCHAR>,
  WATERMARK FOR cts AS cts - INTERVAL '5 seconds') WITH (connector = 'filesystem', path = '${data}/clicks.jsonl') FORMAT PLAIN ENCODE JSON;
CREATE TABLE staff (id INT PRIMARY KEY, name VARCHAR, dept VARCHAR, salary INT, boss INT, hired DATE) WITH (connector = 'filesystem', path = '${data}/staff.csv') FORMAT PLAIN ENCODE CSV;
CREATE TABLE depts (dept VARCHAR, title VARCHAR, budget INT) WITH (connector = 'filesystem', path = '${data}/depts.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE meters (meter VARCHAR, kwh DOUBLE PRECISION, mtime TIMESTAMPTZ, WATERMARK FOR mtime AS mtime) WITH (connector = 'filesystem', path = '${data}/meters.csv') FORMAT PLAIN ENCODE CSV;
=== tumble-mv rows
CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, COUNT(*) AS n, SUM(amount) AS total
FROM TUMBLE(payments, ptime, INTERVAL '5 minutes')
GROUP BY window_start;
SELECT * FROM per_minute;
--- duckdb
SELECT time_bucket(INTERVAL 5 MINUTE, ptime) w, count(*), sum(amount) FROM payments GROUP BY w
=== hop-with-offset rows
SELECT window_start, window_end, COUNT(*) AS n
FROM HOP(payments, ptime, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE, INTERVAL '1' MINUTE)
GROUP BY window_start, window_end ORDER BY window_start;
--- duckdb
SELECT s, s + INTERVAL 10 MINUTE, count(*) FROM payments, (SELECT unnest(generate_series(TIMESTAMP '2026-03-01 07:41:00', TIMESTAMP '2026-03-01 08:31:00', INTERVAL 5 MINUTE)) s) WHERE ptime >= s AND ptime < s + INTERVAL 10 MINUTE GROUP BY s
=== session-frame rows
SELECT pid, account,
  FIRST_VALUE(ptime) OVER (PARTITION BY account ORDER BY ptime SESSION WITH GAP INTERVAL '3 minutes') AS window_start
FROM payments;
--- duckdb
WITH a AS (SELECT *, CASE WHEN ptime - lag(ptime) OVER (PARTITION BY account ORDER BY ptime) <= INTERVAL 3 MINUTE THEN 0 ELSE 1 END n FROM payments), b AS (SELECT *, sum(n) OVER (PARTITION BY account ORDER BY ptime) g FROM a) SELECT pid, account, min(ptime) OVER (PARTITION BY account, g) FROM b
=== month-tumble rows
SELECT window_start, sum(kwh) AS kwh FROM TUMBLE(meters, mtime, INTERVAL '1' MONTH) GROUP BY window_start;
--- duckdb
SELECT date_trunc('month', mtime) w, sum(kwh) FROM meters GROUP BY w
=== top-n-group table
SELECT dept, name, salary FROM (
  SELECT dept, name, salary, row_number() OVER (PARTITION BY dept ORDER BY salary DESC, id) AS rank FROM staff)
WHERE rank <= 2;
--- duckdb
SELECT dept, name, salary FROM staff QUALIFY row_number() OVER (PARTITION BY dept ORDER BY salary DESC, id) <= 2
=== asof-join rows
SELECT p.pid, f.fid FROM payments p ASOF LEFT JOIN fills f ON p.pid = f.pid AND p.ptime <= f.ftime AND f.ftime <= p.ptime + INTERVAL '1 hour';
--- duckdb
SELECT p.pid, f.fid FROM payments p LEFT JOIN fills f ON p.pid = f.pid AND p.ptime <= f.ftime AND f.ftime <= p.ptime + INTERVAL '1 hour'
=== interval-join rows
SELECT p.pid, f.venue FROM payments AS p JOIN fills AS f
ON p.pid = f.pid AND f.ftime BETWEEN p.ptime AND p.ptime + INTERVAL '2 minutes';
--- duckdb
SELECT p.pid, f.venue FROM payments p, fills f WHERE p.pid = f.pid AND f.ftime BETWEEN p.ptime AND p.ptime + INTERVAL '2 minutes'
=== left-join-table rows
SELECT p.pid, s.name FROM payments p LEFT JOIN staff s ON p.pid = s.id;
--- duckdb
SELECT p.pid, s.name FROM payments p LEFT JOIN staff s ON p.pid = s.id
=== jsonb-access rows
SELECT "user", props ->> 'os' AS os, (props -> 'n')::int AS n, props ? 'n' AS has_n, jsonb_typeof(props -> 'os') AS t
FROM clicks WHERE props IS NOT NULL;
--- duckdb
SELECT "user", props ->> '$.os', CAST(props ->> '$.n' AS INT), json_exists(props, '$.n'), CASE WHEN props ->> '$.os' IS NOT NULL THEN 'string' END FROM clicks WHERE props IS NOT NULL
=== struct-access rows
SELECT "user", (geo).country AS c, (geo).city AS t FROM clicks;
--- duckdb
SELECT "user", geo.country, geo.city FROM clicks
=== unnest-select rows
SELECT "user", unnest(tags) AS tag FROM clicks;
--- duckdb
SELECT "user", unnest(tags) FROM clicks
=== array-functions rows
SELECT "user", array_length(tags, 1) AS n, array_append(tags, 'z') AS a, array_to_string(tags, '+') AS s, array_remove(tags, 'eu') AS r,
  tags[1:2] AS sl, array_position(tags, 'vip') AS p, 'eu' = ANY(tags) AS e, tags || ARRAY['q'] AS c
FROM clicks WHERE "user" = 'mary' AND cardinality(tags) > 0;
--- duckdb
VALUES ('mary', 2, ['new', 'eu', 'z'], 'new+eu', ['new'], ['new', 'eu'], NULL, true, ['new', 'eu', 'q']), ('mary', 3, ['eu', 'eu', 'vip', 'z'], 'eu+eu+vip', ['vip'], ['eu', 'eu'], 3, true, ['eu', 'eu', 'vip', 'q'])
=== string-agg-order table
SELECT dept, string_agg(name, ', ' ORDER BY salary DESC, id) AS names, array_agg(id ORDER BY id DESC) AS ids, jsonb_object_agg(name, salary) AS o
FROM staff WHERE dept = 'ops' GROUP BY dept;
--- duckdb
VALUES ('ops', 'Cy, Di', [4, 3], '{"Cy":80,"Di":80}')
=== ordered-set table
SELECT dept, percentile_cont(0.5) WITHIN GROUP (ORDER BY salary) AS med, percentile_disc(0.5) WITHIN GROUP (ORDER BY salary) AS d,
  mode() WITHIN GROUP (ORDER BY salary) AS m, approx_count_distinct(salary) AS a, bool_or(salary > 100) AS b, bit_or(id) AS bo
FROM staff WHERE dept IS NOT NULL GROUP BY dept;
--- duckdb
VALUES ('eng', 110, 110, 100, 3, true, 7), ('ops', 80, 80, 80, 1, false, 7)
=== string-functions rows
SELECT pid, split_part('a.b.c', '.', 2) AS sp, regexp_match(account, '([a-z])(\d)') AS rm, left(status, 2) AS l, right(status, -1) AS r,
  format('%s has %s', account, status) AS f, to_hex(255) AS h, md5(status) AS m, encode(status::bytea, 'base64') AS e, starts_with(status, 'o') AS st,
  repeat('x', 2) AS rp, chr(65) AS ch, translate(status, 'o', '0') AS tr, regexp_count('banana', 'a') AS rc
FROM payments WHERE pid = 1;
--- duckdb
VALUES (1, 'b', ['a', '1'], 'ok', 'k', 'a1 has ok', 'ff', '444bcb3a3fcf8389296c49467f27e1d6', 'b2s=', true, 'xx', 'A', '0k', 3)
=== time-functions rows
SELECT pid, to_char(ptime, 'YYYY-MM-DD HH24:MI:SS') AS c, date_part('hour', ptime) AS h, extract(epoch FROM ptime) AS e, date_trunc('hour', ptime) AS t,
  ptime + INTERVAL '1 day 2 hours' AS plus, to_timestamp(1767225600) AS ts, make_timestamp(2026, 1, 2, 3, 4, 5.5) AS mt, ptime::date AS d, ptime - '2026-03-01 08:00:00'::timestamp AS diff
FROM payments WHERE pid = 5;
--- duckdb
VALUES (5, '2026-03-01 08:04:59', 8, 1772352299, TIMESTAMP '2026-03-01 08:00:00', TIMESTAMP '2026-03-02 10:04:59', TIMESTAMP '2026-01-01 00:00:00', TIMESTAMP '2026-01-02 03:04:05.5', DATE '2026-03-01', INTERVAL '299 seconds')
=== lag-change rows
SELECT pid, account, status, lag(status) OVER (PARTITION BY account ORDER BY ptime) AS prev FROM payments;
--- duckdb
SELECT pid, account, status, lag(status) OVER (PARTITION BY account ORDER BY ptime) FROM payments
=== rolling-sum rows
SELECT pid, sum(amount) OVER (PARTITION BY account ORDER BY ptime ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM payments;
--- duckdb
SELECT pid, sum(amount) OVER (PARTITION BY account ORDER BY ptime ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM payments
=== following-frame table
SELECT pid, sum(amount) OVER (PARTITION BY account ORDER BY ptime ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM payments;
--- duckdb
SELECT pid, sum(amount) OVER (PARTITION BY account ORDER BY ptime ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM payments
=== emit-on-close rows
CREATE MATERIALIZED VIEW w AS
SELECT account, window_end, max(amount) AS top FROM TUMBLE(payments, ptime, INTERVAL '10 minutes')
GROUP BY account, window_end EMIT ON WINDOW CLOSE;
SELECT account, top FROM w WHERE top > 50;
--- duckdb
SELECT account, max(amount) m FROM payments GROUP BY account, time_bucket(INTERVAL 10 MINUTE, ptime) HAVING m > 50
=== cte-union table
WITH c AS (SELECT dept FROM staff WHERE dept IS NOT NULL UNION SELECT dept FROM depts) SELECT dept FROM c ORDER BY dept;
--- duckdb
SELECT dept FROM staff WHERE dept IS NOT NULL UNION SELECT dept FROM depts
=== exists-having table
SELECT d.title FROM depts d WHERE EXISTS (SELECT * FROM staff s WHERE s.dept = d.dept AND s.salary > 100);
--- duckdb
SELECT title FROM depts d WHERE EXISTS (SELECT * FROM staff s WHERE s.dept = d.dept AND s.salary > 100)
=== case-coalesce table
SELECT coalesce(dept, 'none') AS dept, count(*) AS n, sum(CASE WHEN salary >= 100 THEN 1 ELSE 0 END) AS high,
  round(avg(salary), 1) AS mean, max(salary) - min(salary) AS spread FROM staff GROUP BY 1;
--- duckdb
SELECT coalesce(dept, 'none') d, count(*), count(*) FILTER (WHERE salary >= 100), round(avg(salary), 1), max(salary) - min(salary) FROM staff GROUP BY d
=== generate-series rows
SELECT pid, g FROM payments CROSS JOIN generate_series(1, 2) AS t(g) WHERE pid < 3;
--- duckdb
SELECT pid, g FROM payments, (VALUES (1), (2)) t(g) WHERE pid < 3
=== create-sink sink
CREATE MATERIALIZED VIEW ok AS SELECT pid, account, amount FROM payments WHERE status = 'ok';
CREATE SINK ok_sink FROM ok WITH (connector = 'filesystem', path = '${out}/ok', type = 'append-only', force_append_only = 'true') FORMAT PLAIN ENCODE PARQUET;
--- duckdb
SELECT 'ok', pid, account, amount FROM payments WHERE status = 'ok'
