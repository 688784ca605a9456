CREATE TABLE rides (ride_id int, driver varchar(8), city varchar(80), km real, fare numeric(8, 2), tip numeric(8, 2), paid_by text, picked_at timestamp, dropped_at timestamp, WATERMARK FOR picked_at AS picked_at) WITH (path = '${data}/rides.csv');
CREATE TABLE drivers (driver text, full_name text, rating double precision, home text, hired date) WITH (path = '${data}/drivers.csv');
CREATE TABLE pay (dept text, empno int, salary int, since date) WITH (path = '${data}/pay.csv');
CREATE TABLE complaints (complaint_id int, ride_id int, reason text, made_at timestamp, WATERMARK FOR made_at AS made_at) WITH (path = '${data}/complaints.csv');
CREATE TABLE logs (host text, at timestamp, level text, msg text, labels text[], nums int[], doc jsonb, WATERMARK FOR at AS at) WITH (path = '${data}/logs.jsonl');
=== tutorial-insert-and-join table
CREATE TABLE weather (city varchar(80), temp_lo int, temp_hi int, prcp real, date date);
CREATE TABLE cities (name varchar(80), location text);
INSERT INTO weather VALUES ('San Francisco', 46, 50, 0.25, '1994-11-27');
INSERT INTO weather (city, temp_lo, temp_hi, prcp, date) VALUES ('San Francisco', 43, 57, 0.0, '1994-11-29');
INSERT INTO weather (date, city, temp_hi, temp_lo) VALUES ('1994-11-29', 'Hayward', 54, 37);
INSERT INTO cities VALUES ('San Francisco', '(-194.0, 53.0)');
SELECT w.city, (w.temp_hi + w.temp_lo) / 2 AS temp_avg, w.date, c.location FROM weather w LEFT OUTER JOIN cities c ON w.city = c.name;
--- duckdb
VALUES ('San Francisco', 48, DATE '1994-11-27', '(-194.0, 53.0)'), ('San Francisco', 50, DATE '1994-11-29', '(-194.0, 53.0)'), ('Hayward', 45, DATE '1994-11-29', NULL)
=== tutorial-filter-having table
SELECT city, count(*) FILTER (WHERE fare < 12), max(km) FROM rides WHERE city LIKE '%o%' GROUP BY city HAVING max(km) < 40;
--- duckdb
SELECT city, count(*) FILTER (WHERE fare < 12), max(km) FROM rides WHERE city LIKE '%o%' GROUP BY city HAVING max(km) < 40
=== tutorial-window table
SELECT dept, empno, salary, avg(salary) OVER (PARTITION BY dept), rank() OVER w, sum(salary) OVER w AS running FROM pay WINDOW w AS (PARTITION BY dept ORDER BY salary DESC);
--- duckdb
SELECT dept, empno, salary, avg(salary) OVER (PARTITION BY dept), rank() OVER w, sum(salary) OVER w AS running FROM pay WINDOW w AS (PARTITION BY dept ORDER BY salary DESC)
=== tutorial-top-of-dept table
SELECT dept, empno, salary, since FROM (SELECT dept, empno, salary, since, row_number() OVER (PARTITION BY dept ORDER BY salary DESC, empno) AS pos FROM pay) AS ss WHERE pos < 3;
--- duckdb
SELECT dept, empno, salary, since FROM pay QUALIFY row_number() OVER (PARTITION BY dept ORDER BY salary DESC, empno) < 3
=== frame-exclusion table
SELECT empno, sum(salary) OVER (ORDER BY since, empno ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS others, count(*) OVER (ORDER BY since RANGE BETWEEN '1 year' PRECEDING AND '1 year' FOLLOWING) AS near, first_value(empno) OVER (ORDER BY since, empno GROUPS 1 PRECEDING) AS g FROM pay;
--- duckdb
SELECT empno, sum(salary) OVER (ORDER BY since, empno ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS others, count(*) OVER (ORDER BY since RANGE BETWEEN INTERVAL 1 YEAR PRECEDING AND INTERVAL 1 YEAR FOLLOWING) AS near, first_value(empno) OVER (ORDER BY since, empno GROUPS 1 PRECEDING) AS g FROM pay
=== grouping-function table
SELECT city, paid_by, grouping(city, paid_by) AS g, sum(fare) AS total, count(*) FROM rides GROUP BY ROLLUP (city, paid_by) HAVING sum(fare) > 15;
--- duckdb
SELECT city, paid_by, grouping(city, paid_by) AS g, sum(fare) AS total, count(*) FROM rides GROUP BY ROLLUP (city, paid_by) HAVING sum(fare) > 15
=== with-regional table
WITH city_sales AS (SELECT city, sum(fare) AS total FROM rides GROUP BY city),
top_cities AS (SELECT city FROM city_sales WHERE total > (SELECT sum(total) / 4 FROM city_sales))
SELECT city, driver, sum(km)::numeric(6, 1) AS km, sum(fare) AS sales FROM rides WHERE city IN (SELECT city FROM top_cities) GROUP BY city, driver;
--- duckdb
WITH c AS (SELECT city, sum(fare) AS total FROM rides GROUP BY city) SELECT city, driver, round(sum(km), 1), sum(fare) FROM rides WHERE city IN (SELECT city FROM c WHERE total > (SELECT sum(total) / 4 FROM c)) GROUP BY city, driver
=== to-char-formats rows
SELECT ride_id, to_char(fare, '999D99') AS a, to_char(fare, 'FM999.00') AS b, to_char(ride_id, '000') AS c, to_char(picked_at, 'Day, DD  HH12:MI:SS') AS d, to_char(picked_at, 'FMMonth DDth, YYYY') AS e, to_char(picked_at, 'DDD WW Q CC J') AS f, to_number('12,454.8', '99G999D9') AS n, to_date('05 Dec 2000', 'DD Mon YYYY') AS td, to_timestamp('05 Dec 2000 01:02', 'DD Mon YYYY HH24:MI') AT TIME ZONE 'UTC' AS ts FROM rides WHERE ride_id = 2;
--- duckdb
SELECT 2, '  25.00', '25.00', ' 002', 'Monday   , 01  08:02:30', 'September 1st, 2025', '244 35 3 21 2460920', 12454.8, DATE '2000-12-05', TIMESTAMP '2000-12-05 01:02:00'
=== date-time-page rows
SELECT ride_id, age(dropped_at, picked_at) AS a, date_part('day', picked_at) AS b, extract(isodow FROM picked_at) AS c, extract(doy FROM picked_at) AS d, date_trunc('week', picked_at) AS e, make_interval(mins => 10) AS f, picked_at + make_interval(hours => 2) AS g, (picked_at, dropped_at) OVERLAPS (TIMESTAMP '2025-09-01 08:10:00', TIMESTAMP '2025-09-01 09:00:00') AS h, isfinite(picked_at) AS i, DATE '2001-10-01' - DATE '2001-09-28' AS j, DATE '2001-09-28' + 7 AS k, picked_at AT TIME ZONE 'Asia/Tokyo' AS l, extract(milliseconds FROM TIMESTAMP '2025-01-01 00:00:28.5') AS m, date_trunc('hour', INTERVAL '2 hours 40 minutes') AS n, extract(century FROM picked_at) AS o, picked_at::date + TIME '03:00' AS p FROM rides WHERE ride_id = 1;
--- duckdb
SELECT 1, INTERVAL 11 MINUTE, 1, 1, 244, DATE '2025-09-01', INTERVAL 10 MINUTE, TIMESTAMP '2025-09-01 10:00:00', true, true, 3, DATE '2001-10-05', TIMESTAMP '2025-08-31 23:00:00', 28500, INTERVAL 2 HOUR, 21, TIMESTAMP '2025-09-01 03:00:00'
=== json-page rows
SELECT host, json_build_object('h', host, 'n', 1) AS a, jsonb_path_query_array(doc, '$.tags[*]') AS b, jsonb_insert('{"a": [0, 1]}'::jsonb, '{a, 1}', '"new"') AS c, doc #> '{b}' AS d, jsonb_pretty('[1]'::jsonb) IS NOT NULL AS e, row_to_json(row(1, 'foo')) AS f, jsonb_exists(doc, 'a') AS g, doc['b']['c'] AS h, json_array_length('[1,2,3]') AS i, '[1, 2]'::jsonb @> '1' AS j, to_json('x "y"'::text) AS k, array_to_json(nums) AS l, jsonb_path_exists(doc, '$.tags[*] ? (@ == "q")') AS m, jsonb_build_array(1, 'b', NULL) AS n FROM logs WHERE host = 'web1' AND level = 'INFO';
--- duckdb
VALUES ('web1', '{"h":"web1","n":1}', '["p","q"]', '{"a":[0,"new",1]}', '{"c":"x"}', true, '{"f1":1,"f2":"foo"}', true, '"x"', 3, true, '"x \"y\""', '[3,1,2]', true, '[1,"b",null]')
=== jsonb-to-recordset rows
SELECT l.host, j.value ->> 'k' AS k, (j.value ->> 'v')::int AS v FROM logs l, json_array_elements('[{"k": "a", "v": 1}, {"k": "b", "v": 2}]'::json) AS j(value) WHERE l.host = 'web3';
--- duckdb
VALUES ('web3', 'a', 1), ('web3', 'b', 2)
=== arrays-page rows
SELECT host, array_dims(ARRAY[[1, 2], [3, 4]]) AS a, array_fill(7, ARRAY[3]) AS b, array_length(nums, 1) AS c, array_lower(nums, 1) AS d, array_remove(nums, 1) AS e, nums[2:3] AS f, nums && ARRAY[9, 2] AS g, nums <@ ARRAY[1, 2, 3, 4] AS h, 4 <> ALL (nums) AS i, array_to_string(ARRAY['a', NULL, 'c'], ',', '*') AS j, string_to_array('x~^~y', '~^~') AS k, cardinality(labels) AS l, ARRAY(SELECT unnest(ARRAY[1, 2])) AS m, trim_array(nums, 1) AS n, array_position(labels, 'eu') AS o, ARRAY[1, 2] || 3 AS p, nums = ARRAY[3, 1, 2] AS q FROM logs WHERE host = 'web1' AND level = 'INFO';
--- duckdb
VALUES ('web1', '[1:2][1:2]', [7, 7, 7], 3, 1, [3, 2], [1, 2], true, true, true, 'a,*,c', ['x', 'y'], 2, [1, 2], [3, 1], 2, [1, 2, 3], true)
=== aggregates-page table
SELECT dept, percentile_cont(ARRAY[0.25, 0.5]) WITHIN GROUP (ORDER BY salary) AS pc, mode() WITHIN GROUP (ORDER BY salary) AS mo, corr(salary, empno) AS co, regr_slope(salary, empno) AS rs, every(salary > 4000) AS ev, bit_and(empno) AS ba, array_agg(DISTINCT salary ORDER BY salary DESC) AS ag, string_agg(empno::text, '/' ORDER BY salary DESC, empno) AS sa, json_agg(empno ORDER BY empno) AS ja, stddev_samp(salary) AS ss, any_value(dept) AS av, min(since) AS mi, count(DISTINCT since) AS cd, covar_pop(salary, empno) AS cp FROM pay GROUP BY dept;
--- duckdb
SELECT dept, quantile_cont(salary, [0.25, 0.5]), mode(salary ORDER BY salary), corr(salary, empno), regr_slope(salary, empno), bool_and(salary > 4000), bit_and(empno), list(DISTINCT salary ORDER BY salary DESC), string_agg(empno::text, '/' ORDER BY salary DESC, empno), '[' || string_agg(empno::VARCHAR, ',' ORDER BY empno) || ']', stddev_samp(salary), dept, min(since), count(DISTINCT since), covar_pop(salary, empno) FROM pay GROUP BY dept
=== row-comparisons table
SELECT empno FROM pay WHERE (dept, salary) IN (SELECT dept, max(salary) FROM pay GROUP BY dept) AND ROW(salary, empno) > ROW(5000, 4) AND salary <> ALL (SELECT salary FROM pay WHERE dept = 'hr');
--- duckdb
VALUES (4), (8)
=== fetch-first-offset ordered
SELECT empno, salary FROM pay ORDER BY salary DESC, empno OFFSET 1 ROWS FETCH FIRST 3 ROWS ONLY;
--- duckdb
SELECT empno, salary FROM pay ORDER BY salary DESC, empno OFFSET 1 LIMIT 3
