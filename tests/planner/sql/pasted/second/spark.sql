CREATE TABLE payments (pid INT, account STRING, amount DOUBLE, currency STRING, status STRING, ptime TIMESTAMP,
  WATERMARK FOR ptime AS ptime - INTERVAL 10 SECONDS) USING csv OPTIONS (path '${data}/payments.csv', header 'true');
CREATE TABLE fills (fid INT, pid INT, venue STRING, ftime TIMESTAMP,
  WATERMARK FOR ftime AS ftime) USING csv OPTIONS (path '${data}/fills.csv', header 'true');
CREATE TABLE clicks (user STRING, url STRING, cts TIMESTAMP, tags ARRAY<STRING>, props STRING, geo STRUCT<country: STRING, city: STRING>,
  WATERMARK FOR cts AS cts) USING json OPTIONS (path '${data}/clicks.jsonl');
CREATE TABLE staff (id INT, name STRING, dept STRING, salary INT, boss INT, hired DATE) USING CSV LOCATION '${data}/staff.csv';
CREATE TABLE depts (dept STRING, title STRING, budget INT) USING CSV LOCATION '${data}/depts.csv';
=== window-count rows
SELECT window, account, count(*) AS cnt
FROM payments GROUP BY window(ptime, '5 minutes'), account;
--- duckdb
SELECT struct_pack("start" := w, "end" := w + INTERVAL 5 MINUTE), account, c FROM (SELECT time_bucket(INTERVAL 5 MINUTE, ptime) w, account, count(*) c FROM payments GROUP BY ALL)
=== window-start-time rows
SELECT window.start AS s, window.end AS e, sum(amount) AS total
FROM payments GROUP BY window(ptime, '10 minutes', '10 minutes', '3 minutes');
--- duckdb
SELECT w, w + INTERVAL 10 MINUTE, sum(amount) FROM (SELECT time_bucket(INTERVAL 10 MINUTE, ptime, INTERVAL 3 MINUTE) w, amount FROM payments) GROUP BY w
=== session-dynamic-gap rows
SELECT account, count(*) AS cnt
FROM payments
GROUP BY account, session_window(ptime, CASE WHEN account = 'a1' THEN '2 minutes' ELSE '5 minutes' END);
--- duckdb
VALUES ('a1', 2), ('a1', 1), ('a2', 3), ('a3', 1), ('a3', 1)
=== window-time rows
SELECT window_time(window) AS wt, sum(n) AS n
FROM (SELECT window, count(*) AS n FROM payments GROUP BY window(ptime, '5 minutes'), account)
GROUP BY window;
--- duckdb
SELECT w + INTERVAL 5 MINUTE - INTERVAL 1 MICROSECOND, n FROM (SELECT time_bucket(INTERVAL 5 MINUTE, ptime) w, count(*) n FROM payments GROUP BY ALL)
=== rank-over-dept table
SELECT name, dept, RANK() OVER (PARTITION BY dept ORDER BY salary) AS rank FROM staff;
--- duckdb
SELECT name, dept, rank() OVER (PARTITION BY dept ORDER BY salary) FROM staff
=== cume-dist-range table
SELECT name, dept, CUME_DIST() OVER (PARTITION BY dept ORDER BY salary
    RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS cume_dist FROM staff;
--- duckdb
SELECT name, dept, cume_dist() OVER (PARTITION BY dept ORDER BY salary) FROM staff
=== min-over-partition table
SELECT name, dept, salary, MIN(salary) OVER (PARTITION BY dept ORDER BY salary) AS min FROM staff;
--- duckdb
SELECT name, dept, salary, min(salary) OVER (PARTITION BY dept ORDER BY salary) FROM staff
=== lag-lead-default table
SELECT name, salary,
    LAG(salary) OVER (PARTITION BY dept ORDER BY salary, id) AS lag,
    LEAD(salary, 1, 0) OVER (PARTITION BY dept ORDER BY salary, id) AS lead
FROM staff;
--- duckdb
SELECT name, salary, lag(salary) OVER (PARTITION BY dept ORDER BY salary, id), lead(salary, 1, 0) OVER (PARTITION BY dept ORDER BY salary, id) FROM staff
=== rollup-grouping table
SELECT dept, boss, sum(salary) AS sum, grouping(boss) AS g FROM staff
GROUP BY dept, boss WITH ROLLUP;
--- duckdb
SELECT dept, boss, sum(salary), grouping(boss) FROM staff GROUP BY ROLLUP (dept, boss)
=== grouping-sets table
SELECT dept, boss, sum(salary) AS sum FROM staff
GROUP BY GROUPING SETS ((dept, boss), (dept), (boss), ());
--- duckdb
SELECT dept, boss, sum(salary) FROM staff GROUP BY GROUPING SETS ((dept, boss), (dept), (boss), ())
=== aggregate-filter table
SELECT dept, sum(salary) FILTER (WHERE boss = 1) AS under_ada, count(DISTINCT boss) AS bosses, collect_set(salary) AS s
FROM staff WHERE dept = 'ops' GROUP BY dept;
--- duckdb
VALUES ('ops', 80, 2, [80])
=== percentile table
SELECT dept, percentile(salary, 0.5) AS p, max_by(name, salary) AS top, any_value(dept) AS d, stddev_pop(salary) AS sd
FROM staff WHERE dept IS NOT NULL GROUP BY dept;
--- duckdb
SELECT dept, quantile_cont(salary, 0.5), CASE dept WHEN 'eng' THEN 'Ada' ELSE 'Cy' END, dept, stddev_pop(salary) FROM staff WHERE dept IS NOT NULL GROUP BY dept
=== pivot-two table
SELECT * FROM (SELECT dept, boss, salary FROM staff)
PIVOT (sum(salary) AS total FOR boss IN (1 AS ada, 3 AS cy));
--- duckdb
SELECT dept, sum(salary) FILTER (WHERE boss = 1), sum(salary) FILTER (WHERE boss = 3) FROM staff GROUP BY dept
=== lateral-view-multi rows
SELECT user, tag, pos FROM clicks LATERAL VIEW OUTER posexplode(tags) t AS pos, tag;
--- duckdb
SELECT "user", t.tag, t.pos - 1 FROM clicks LEFT JOIN LATERAL (SELECT unnest(tags) tag, generate_subscripts(tags, 1) pos) t ON true
=== higher-order rows
SELECT user, transform(tags, (x, i) -> concat(x, i)) AS t, exists(tags, x -> x = 'vip') AS v,
  forall(tags, x -> length(x) < 4) AS short, filter(tags, x -> x <> 'eu') AS f,
  aggregate(tags, 0, (acc, x) -> acc + length(x), acc -> acc * 10) AS a
FROM clicks WHERE tags IS NOT NULL;
--- duckdb
VALUES ('mary', ['new0', 'eu1'], false, true, ['new'], 50), ('bob', ['us0'], false, true, ['us'], 20), ('mary', [], false, true, [], 0), ('mary', ['eu0', 'eu1', 'vip2'], true, true, ['vip'], 70), ('bob', ['us0', 'old1'], false, true, ['us', 'old'], 50), ('liz', ['eu0'], false, true, [], 20)
=== array-builtins rows
SELECT user, array_distinct(tags) AS d, array_join(tags, ',') AS j, size(tags) AS n, sort_array(tags, false) AS s,
  array_contains(tags, 'eu') AS c, element_at(tags, -1) AS e, array_position(tags, 'eu') AS p, slice(tags, 1, 1) AS sl
FROM clicks WHERE cts = TIMESTAMP '2026-03-01 09:59:59';
--- duckdb
VALUES ('mary', ['eu', 'vip'], 'eu,eu,vip', 3, ['vip', 'eu', 'eu'], true, 'vip', 1, ['eu'])
=== json-and-struct rows
SELECT user, get_json_object(props, '$.os') AS os, from_json(props, 'os STRING, n INT').n AS n, to_json(geo) AS g
FROM clicks WHERE user = 'bob';
--- duckdb
VALUES ('bob', 'win', 5, '{"country":"us","city":"reno"}'), ('bob', 'win', 2, '{"country":"us","city":"reno"}')
=== map-functions rows
SELECT pid, map('acc', account, 'st', status) AS m, map_keys(map('acc', account)) AS k, str_to_map('a:1,b:2')['b'] AS b
FROM payments WHERE pid = 1;
--- duckdb
VALUES (1, [('acc', 'a1'), ('st', 'ok')], ['acc'], '2')
=== string-builtins rows
SELECT pid, initcap(status) AS i, substring_index('www.apache.org', '.', 2) AS si, translate(account, 'a', 'b') AS t,
  regexp_replace(account, '(\\d)', '#$1') AS r, format_string('%s-%03d', account, pid) AS f, split(status, 'i')[0] AS s0,
  locate('l', status) AS l, base64(status) AS b64, hex(pid) AS h, crc32(status) AS crc, ascii(status) AS a
FROM payments WHERE pid = 3;
--- duckdb
VALUES (3, 'Failed', 'www.apache', 'b1', 'a#1', 'a1-003', 'fa', 4, 'ZmFpbGVk', '3', 2659951479, 102)
=== date-builtins rows
SELECT id, date_trunc('MONTH', hired) AS mon, months_between(DATE '2024-11-30', hired) AS mb, add_months(hired, 1) AS am,
  last_day(hired) AS ld, next_day(hired, 'Mon') AS nd, date_add(hired, 3) AS da, datediff(DATE '2024-12-01', hired) AS dd,
  trunc(hired, 'YEAR') AS ty, dayofyear(hired) AS doy, weekofyear(hired) AS w, make_date(2020, 1, id) AS md
FROM staff WHERE id IN (2, 6);
--- duckdb
VALUES (2, TIMESTAMP '2020-02-01 00:00:00', 57, DATE '2020-03-29', DATE '2020-02-29', DATE '2020-03-02', DATE '2020-03-03', 1737, DATE '2020-01-01', 60, 9, DATE '2020-01-02'), (6, TIMESTAMP '2024-11-01 00:00:00', 0, DATE '2024-12-30', DATE '2024-11-30', DATE '2024-12-02', DATE '2024-12-03', 1, DATE '2024-01-01', 335, 48, DATE '2020-01-06')
=== math-builtins rows
SELECT pid, bround(2.5) AS b, pmod(-7, 3) AS p, greatest(pid, 3) AS g, round(-2.5) AS r, ceil(1.2) AS c, cbrt(27.0) AS cb, bin(pid) AS bi,
  conv('ff', 16, 10) AS cv, hypot(3, 4) AS hy, log2(8) AS l2, shiftleft(pid, 2) AS sl, factorial(4) AS fa, unhex('41') = 'A' AS u
FROM payments WHERE pid = 5;
--- duckdb
VALUES (5, 2, 2, 5, -3, 2, 3, '101', '255', 5, 3, 20, 24, true)
=== cte-and-correlated table
WITH paid AS (SELECT dept, avg(salary) AS mean FROM staff GROUP BY dept)
SELECT s.name, s.salary - p.mean AS diff FROM staff s JOIN paid p ON s.dept = p.dept
WHERE s.salary > (SELECT avg(salary) FROM staff x WHERE x.dept = s.dept);
--- duckdb
WITH paid AS (SELECT dept, avg(salary) AS mean FROM staff GROUP BY dept) SELECT s.name, s.salary - p.mean FROM staff s JOIN paid p ON s.dept = p.dept WHERE s.salary > (SELECT avg(salary) FROM staff x WHERE x.dept = s.dept)
=== anti-join table
SELECT d.title FROM depts d LEFT ANTI JOIN staff s ON d.dept = s.dept;
--- duckdb
SELECT title FROM depts WHERE dept NOT IN (SELECT dept FROM staff WHERE dept IS NOT NULL)
=== not-in-null table
SELECT name FROM staff WHERE id NOT IN (SELECT boss FROM staff);
--- duckdb
SELECT name FROM staff WHERE id NOT IN (SELECT boss FROM staff WHERE boss IS NOT NULL) AND false UNION ALL SELECT 'nobody' WHERE false
=== stream-left-join rows
SELECT p.pid, f.venue FROM payments p LEFT OUTER JOIN fills f
ON p.pid = f.pid AND f.ftime >= p.ptime AND f.ftime <= p.ptime + interval 2 minutes;
--- duckdb
SELECT p.pid, f.venue FROM payments p LEFT JOIN fills f ON p.pid = f.pid AND f.ftime >= p.ptime AND f.ftime <= p.ptime + INTERVAL 2 MINUTE
