CREATE TABLE rides (ride_id INTEGER, driver VARCHAR, city VARCHAR, km DOUBLE, fare DOUBLE, tip DOUBLE, paid_by VARCHAR, picked_at TIMESTAMP, dropped_at TIMESTAMP, WATERMARK FOR picked_at AS picked_at) WITH (path = '${data}/rides.csv');
CREATE TABLE drivers (driver VARCHAR, full_name VARCHAR, rating DOUBLE, home VARCHAR, hired DATE) WITH (path = '${data}/drivers.csv');
CREATE TABLE pay (dept VARCHAR, empno INTEGER, salary INTEGER, since DATE) WITH (path = '${data}/pay.csv');
CREATE TABLE rates (city VARCHAR, surge DOUBLE, since TIMESTAMP, WATERMARK FOR since AS since) WITH (path = '${data}/rates.csv');
CREATE TABLE totals (shop VARCHAR, jan INTEGER, feb INTEGER, mar INTEGER) WITH (path = '${data}/totals.csv');
CREATE TABLE logs (host VARCHAR, at TIMESTAMP, level VARCHAR, msg VARCHAR, labels VARCHAR[], nums INTEGER[], ctx STRUCT("user" VARCHAR, geo STRUCT(cc VARCHAR, lat DOUBLE)), doc VARCHAR, WATERMARK FOR at AS at) WITH (path = '${data}/logs.jsonl');
=== cities-pivot-docs table
CREATE TABLE cities (country VARCHAR, name VARCHAR, year INTEGER, population INTEGER);
INSERT INTO cities VALUES ('NL', 'Amsterdam', 2000, 1005), ('NL', 'Amsterdam', 2010, 1065), ('US', 'Seattle', 2000, 564), ('US', 'Seattle', 2010, 608), ('US', 'New York City', 2000, 8015);
PIVOT cities ON year IN (2000, 2010) USING sum(population) AS total GROUP BY country;
--- duckdb
VALUES ('NL', 1005, 1065), ('US', 8579, 608)
=== grouping-and-having-friendly table
SELECT city, date_trunc('hour', picked_at) AS hour, round(avg(fare), 2) AS mean, count() AS n FROM rides GROUP BY ALL HAVING n > 1 ORDER BY ALL;
--- duckdb
=
=== list-lambdas-docs rows
SELECT host, list_transform(nums, x -> x + 1) AS a, list_filter(nums, x -> x > 2) AS b, list_reduce(nums, (x, y) -> x + y) AS c, list_sort(nums, 'DESC') AS d, list_distinct(nums) AS e, list_contains(nums, 5) AS f, nums[1:2] AS g, len(labels) AS h, array_to_string(labels, ', ') AS i, unnest(labels) AS j FROM logs WHERE len(nums) > 0;
--- duckdb
SELECT host, list_transform(nums, lambda x: x + 1), list_filter(nums, lambda x: x > 2), list_reduce(nums, lambda x, y: x + y), list_sort(nums, 'DESC'), CASE WHEN host = 'web2' THEN [5] ELSE nums END, list_contains(nums, 5), nums[1:2], len(labels), array_to_string(labels, ', '), unnest(labels) FROM logs WHERE len(nums) > 0
=== window-qualify-docs table
SELECT dept, empno, salary, salary - lag(salary) OVER (PARTITION BY dept ORDER BY since, empno) AS diff FROM pay QUALIFY row_number() OVER (PARTITION BY dept ORDER BY salary DESC, empno) <= 2;
--- duckdb
=
=== date-parts-docs rows
SELECT ride_id, year(picked_at) AS y, month(picked_at) AS m, day(picked_at) AS d, hour(picked_at) AS h, dayname(picked_at) AS dn, quarter(picked_at) AS q, week(picked_at) AS w, epoch(picked_at) AS e, last_day(picked_at) AS ld, date_diff('minute', picked_at, dropped_at) AS dm, picked_at + INTERVAL 3 DAY AS p3, strftime(picked_at, '%Y/%m/%d') AS sf, picked_at::DATE AS dd, make_date(2025, 1, 31) + INTERVAL 1 MONTH AS md, datetrunc('hour', picked_at) AS dt, isodow(picked_at) AS iw, date_part('dow', picked_at) AS dw, yearweek(picked_at) AS yw FROM rides;
--- duckdb
=
=== string-agg-struct-agg table
SELECT city, string_agg(DISTINCT driver, ',' ORDER BY driver) AS ds, list({'d': driver, 'f': fare} ORDER BY ride_id) AS l, arg_min(driver, km) AS near, first(paid_by ORDER BY ride_id) AS fp, count_star() AS n, product(ride_id) AS p, mode(driver ORDER BY driver) AS mo, quantile_cont(fare, 0.25) AS q, bool_or(tip IS NULL) AS bo FROM rides GROUP BY city;
--- duckdb
SELECT city, string_agg(DISTINCT driver, ',' ORDER BY driver) AS ds, list({'d': driver, 'f': fare} ORDER BY ride_id) AS l, arg_min(driver, km) AS near, first(paid_by ORDER BY ride_id) AS fp, count(*) AS n, product(ride_id) AS p, mode(driver ORDER BY driver) AS mo, quantile_cont(fare, 0.25) AS q, bool_or(tip IS NULL) AS bo FROM rides GROUP BY city
=== text-functions-docs rows
SELECT host, concat_ws('-', host, level) AS a, upper(host) AS b, split_part(msg, ' ', 2) AS c, regexp_extract(msg, '([A-Z]+) ([^ ]+)', ['verb', 'path']) AS d, string_split(msg, ' ')[-1] AS e, msg ILIKE '%ITEMS%' AS f, msg LIKE '%/items/%' AS g, printf('%s-%d', host, 3) AS h, rpad(level, 6, '.') AS i, replace(msg, ' ', '_') AS j, length(msg) AS k, reverse(level) AS l, starts_with(msg, 'GET') AS m, levenshtein(level, 'INFOS') AS n, chr(65) AS o, bin(5) AS p, hex('a') AS q, to_base64('a'::BLOB) AS r, url_encode('a b') AS s FROM logs WHERE level = 'INFO';
--- duckdb
=
=== semi-anti-positional table
SELECT full_name FROM drivers ANTI JOIN rides USING (driver) UNION ALL SELECT full_name FROM drivers d WHERE EXISTS (FROM rides r WHERE r.driver = d.driver AND r.fare > 20);
--- duckdb
=
