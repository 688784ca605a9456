CREATE TABLE rides (ride_id int, driver varchar(8), city varchar(80), km real, fare numeric(8, 2), tip numeric(8, 2), paid_by text, picked_at timestamp, dropped_at timestamp, WATERMARK FOR picked_at AS picked_at) WITH (path = '${data}/rides.csv');
CREATE TABLE drivers (driver text, full_name text, rating double precision, home text, hired date) WITH (path = '${data}/drivers.csv');
CREATE TABLE pay (dept text, empno int, salary int, since date) WITH (path = '${data}/pay.csv');
CREATE TABLE complaints (complaint_id int, ride_id int, reason text, made_at timestamp, WATERMARK FOR made_at AS made_at) WITH (path = '${data}/complaints.csv');
CREATE TABLE logs (host text, at timestamp, level text, msg text, labels text[], nums int[], doc jsonb, WATERMARK FOR at AS at) WITH (path = '${data}/logs.jsonl');
=== self-join-weather table
CREATE TABLE weather (city varchar(80), temp_lo int, temp_hi int, prcp real, date date);
INSERT INTO weather VALUES ('San Francisco', 46, 50, 0.25, '1994-11-27'), ('San Francisco', 43, 57, 0, '1994-11-29'), ('Hayward', 37, 54, NULL, '1994-11-29');
SELECT w1.city, w1.temp_lo AS low, w1.temp_hi AS high, w2.city, w2.temp_lo AS low2, w2.temp_hi AS high2 FROM weather w1 JOIN weather w2 ON w1.temp_lo < w2.temp_lo AND w1.temp_hi > w2.temp_hi;
--- duckdb
VALUES ('San Francisco', 43, 57, 'San Francisco', 46, 50), ('Hayward', 37, 54, 'San Francisco', 46, 50)
=== weather-max-subquery table
CREATE TABLE weather (city varchar(80), temp_lo int, date date);
INSERT INTO weather VALUES ('San Francisco', 46, '1994-11-27'), ('Hayward', 37, '1994-11-29');
SELECT city FROM weather WHERE temp_lo = (SELECT max(temp_lo) FROM weather);
--- duckdb
VALUES ('San Francisco')
=== cube-and-empty-set table
SELECT city, paid_by, sum(fare), count(*) FROM rides GROUP BY GROUPING SETS ((city), (paid_by), ());
--- duckdb
SELECT city, paid_by, sum(fare), count(*) FROM rides GROUP BY GROUPING SETS ((city), (paid_by), ())
=== string-functions-table rows
SELECT host, concat('abcde', 2, NULL, 22) AS a, concat_ws(',', 'abcde', 2, NULL, 22) AS b, format('Hello %s, %1$s', 'World') AS c, left('abcde', 2) AS d, lpad('hi', 5, 'xy') AS e, ltrim('zzzytest', 'xyz') AS f, regexp_count('123456789012', '\d\d\d') AS g, regexp_replace('Thomas', '.[mN]a.', 'M') AS h, regexp_split_to_array('hello world', '\s+') AS i, regexp_substr('ABCDEF', 'c(.)(..)', 1, 1, 'i', 2) AS j, reverse('abcde') AS k, split_part('abc,def,ghi,jkl', ',', -2) AS l, strpos('high', 'ig') AS m, substr('alphabet', 3, 2) AS n, to_hex(2147483647) AS o, translate('12345', '143', 'ax') AS p, quote_ident('Foo bar') AS q, overlay('Txxxxas' placing 'hom' from 2 for 4) AS r FROM logs WHERE host = 'web3';
--- duckdb
VALUES ('web3', 'abcde222', 'abcde,2,22', 'Hello World, World', 'ab', 'xyxhi', 'test', 4, 'ThM', ['hello', 'world'], 'EF', 'edcba', 'ghi', 2, 'ph', '7fffffff', 'a2x5', '"Foo bar"', 'Thomas')
=== math-functions-table rows
SELECT ride_id, div(9, 4) AS a, mod(9, 4) AS b, power(9, 3) AS c, round(42.4382, 2) AS d, trunc(42.4382, 2) AS e, width_bucket(5.35, 0.024, 10.06, 5) AS f, gcd(1071, 462) AS g, lcm(1071, 462) AS h, factorial(5) AS i, sign(-8.4) AS j, ceil(-42.8) AS k, degrees(0.5) AS l, cbrt(64.0) AS m, scale(8.41) AS n, min_scale(8.4100) AS o, atan2d(1, 0) AS p, sind(30) AS q, ln(2.0) AS r, log(2.0, 64.0) AS s, 2 ^ 3 AS t, |/ 25.0 AS u, ||/ 64.0 AS v, 91 & 15 AS w, 32 | 3 AS x, 17 # 5 AS y, ~1 AS z, 1 << 4 AS aa, random() >= 0 IS NOT NULL AS bb FROM rides WHERE ride_id = 1;
--- duckdb
SELECT 1, 2, 1, 729, 42.44, 42.43, 3, 21, 23562, 120, -1, -42, degrees(0.5), 4, 2, 2, 90, 0.5, ln(2), 6, 8, 5, 4, 11, 35, 20, -2, 16, true
=== date-trunc-and-series table
SELECT d.day, count(r.ride_id) AS rides FROM generate_series(timestamp '2025-08-31', timestamp '2025-09-02', interval '1 day') AS d (day) LEFT JOIN rides r ON date_trunc('day', r.picked_at) = d.day GROUP BY d.day;
--- duckdb
VALUES (TIMESTAMP '2025-08-31', 0), (TIMESTAMP '2025-09-01', 9), (TIMESTAMP '2025-09-02', 1)
=== named-window-navigation table
SELECT empno, dept, salary, lag(salary) OVER w AS prev, lead(salary, 1, 0) OVER w AS next, first_value(empno) OVER w AS best, dense_rank() OVER (ORDER BY salary DESC) AS dr, percent_rank() OVER (PARTITION BY dept ORDER BY salary) AS pr FROM pay WINDOW w AS (PARTITION BY dept ORDER BY salary DESC, empno);
--- duckdb
SELECT empno, dept, salary, lag(salary) OVER w, lead(salary, 1, 0) OVER w, first_value(empno) OVER w, dense_rank() OVER (ORDER BY salary DESC), percent_rank() OVER (PARTITION BY dept ORDER BY salary) FROM pay WINDOW w AS (PARTITION BY dept ORDER BY salary DESC, empno)
=== lateral-unnest-ordinality rows
SELECT l.host, t.n, t.i FROM logs l CROSS JOIN LATERAL unnest(l.nums) WITH ORDINALITY AS t (n, i) WHERE t.i <= 2;
--- duckdb
VALUES ('web1', 3, 1), ('web1', 1, 2), ('web2', 5, 1), ('web2', 5, 2), ('web1', 9, 1)
