CREATE TABLE rides (ride_id INTEGER, driver VARCHAR, city VARCHAR, km DOUBLE, fare DOUBLE, tip DOUBLE, paid_by VARCHAR, picked_at TIMESTAMP, dropped_at TIMESTAMP, WATERMARK FOR picked_at AS picked_at) WITH (path = '${data}/rides.csv');
CREATE TABLE drivers (driver VARCHAR, full_name VARCHAR, rating DOUBLE, home VARCHAR, hired DATE) WITH (path = '${data}/drivers.csv');
CREATE TABLE pay (dept VARCHAR, empno INTEGER, salary INTEGER, since DATE) WITH (path = '${data}/pay.csv');
CREATE TABLE rates (city VARCHAR, surge DOUBLE, since TIMESTAMP, WATERMARK FOR since AS since) WITH (path = '${data}/rates.csv');
CREATE TABLE totals (shop VARCHAR, jan INTEGER, feb INTEGER, mar INTEGER) WITH (path = '${data}/totals.csv');
CREATE TABLE logs (host VARCHAR, at TIMESTAMP, level VARCHAR, msg VARCHAR, labels VARCHAR[], nums INTEGER[], ctx STRUCT("user" VARCHAR, geo STRUCT(cc VARCHAR, lat DOUBLE)), doc VARCHAR, WATERMARK FOR at AS at) WITH (path = '${data}/logs.jsonl');
=== from-first-group-all table
FROM rides SELECT city, paid_by, sum(fare) AS total, count(*) AS n GROUP BY ALL ORDER BY ALL;
--- duckdb
=
=== columns-expression table
SELECT min(COLUMNS(* EXCLUDE (dept))), max(COLUMNS(['salary', 'empno'])) FROM pay;
--- duckdb
=
=== pivot-statement table
PIVOT rides ON paid_by IN ('card', 'cash', 'app') USING sum(fare) GROUP BY city;
--- duckdb
=
=== unpivot-statement table
UNPIVOT totals ON jan, feb, mar INTO NAME month VALUE sold;
--- duckdb
=
=== asof-left-using rows
SELECT r.ride_id, r.city, surge, fare * coalesce(surge, 1) AS due FROM rides r ASOF LEFT JOIN rates s ON r.city = s.city AND r.picked_at >= s.since;
--- duckdb
=
=== list-page rows
SELECT host, len(list_zip(nums, labels)) AS a, list_aggregate(nums, 'sum') AS b, list_where(nums, [true, false, true]) AS c, list_select(nums, [3, 1]) AS d, list_intersect(nums, [1, 2, 9]) AS e, array_to_string(labels, '-') AS f, list_grade_up(nums) AS g, nums[-1] AS h, nums[:2] AS i, list_transform(nums, lambda x, i: x * i) AS j, list_resize(nums, 4, 0) AS k, list_any_value(nums) AS l, list_min(nums) AS m, list_contains(labels, 'eu') AS n, list_prepend(9, nums) AS o, list_value(1, 2) AS p, list_sort(nums) AS q, list_reverse_sort(nums) AS r, nums || [4] AS s, array_has_any(labels, ['eu']) AS t, list_count(nums) AS u, list_median(nums) AS v, [x + 1 for x in nums] AS w, list_string_agg(labels) AS y FROM logs WHERE host = 'web1' AND level = 'INFO';
--- duckdb
=
=== struct-map-page rows
SELECT host, ctx.geo.cc AS a, ctx['user'] AS b, struct_insert(ctx, n := 1).n AS c, {'x': 1, 'y': host} AS d, row(1, host) AS e, map_from_entries([('k', 5)]) AS f, map_entries(MAP {'k': 5}) AS g, MAP {'k': 5}.k AS h, map_values(MAP {'k': 5}) AS i, map_contains(MAP {'k': 5}, 'k') AS j, element_at(MAP {'k': 5}, 'z') AS l, struct_extract(ctx, 'user') AS m FROM logs WHERE host <> 'web3';
--- duckdb
SELECT host, ctx.geo.cc AS a, ctx['user'] AS b, 1 AS c, {'x': 1, 'y': host} AS d, {'f1': 1, 'f2': host} AS e, ['(''k'', 5)'] AS f, map_entries(MAP {'k': 5}) AS g, 5 AS h, [5] AS i, true AS j, NULL AS l, struct_extract(ctx, 'user') AS m FROM logs WHERE host <> 'web3'
=== text-page rows
SELECT host, msg[1:3] AS a, msg[5] AS b, format('{} = {}', host, 5) AS c, hamming('duck', 'luck') AS d, lcase(level) AS e, strip_accents('mühleisen') AS f, translate(level, 'IN', 'in') AS g, trim('>>x<<', '<>') AS h, unicode('ü') AS i, regexp_replace(msg, '[0-9]', '#', 'g') AS j, regexp_extract(msg, '(\w+)ms', 1) AS k, bit_length('a') AS l, contains(msg, 'items') AS m, suffix(msg, 'ms') AS n, prefix(msg, 'GET') AS o, strlen('ü') AS p, array_extract('duck', 2) AS q, lpad(level, 6, '*') AS r, jaccard('duck', 'luck') AS s, position('e' IN 'tease') AS t, string_split(msg, ' ')[3]::INT AS u, right(msg, 4) AS v, ascii('A') AS w, parse_filename('a/b/c.csv', true) AS x, damerau_levenshtein('duck', 'udck') AS y, sha256('a') AS z, msg SIMILAR TO 'GET.*' AS z1, regexp_full_match('abc', 'a.c') AS z2, md5(host) AS z3 FROM logs WHERE level = 'INFO';
--- duckdb
=
=== timestamp-page rows
SELECT ride_id, age(dropped_at, picked_at) AS a, date_part('hour', picked_at) AS b, epoch_us(picked_at) AS c, time_bucket(INTERVAL 20 MINUTE, picked_at, TIMESTAMP '2025-01-01 00:05:00') AS d, strftime(picked_at, '%A, %-d %B %Y - %I:%M:%S %p') AS e, date_trunc('minute', picked_at) AS f, greatest(picked_at, TIMESTAMP '2025-09-01 08:30:00') AS g, make_timestamp(1667810584123456) AS h, date_add(DATE '2022-05-22', INTERVAL 5 DAY) AS i, date_sub('minute', picked_at, dropped_at) AS j, dayofyear(picked_at) AS k, era(picked_at) AS l, picked_at::TIME AS m, extract('epoch' FROM dropped_at - picked_at) AS n, date_diff('hour', TIMESTAMP '1992-09-30 23:59:59', TIMESTAMP '1992-10-01 01:58:00') AS o, weekofyear(picked_at) AS p, make_time(13, 34, 27.5) AS q, timezone('America/Denver', TIMESTAMP '2001-02-16 20:38:40') AS r, julian(DATE '1992-01-01') AS s, to_days(2) + to_hours(3) AS t, monthname(picked_at) AS u FROM rides WHERE ride_id < 3;
--- duckdb
=
=== numeric-page rows
SELECT ride_id, gcd(42, 57) AS a, lcm(42, 57) AS b, even(2.9) AS c, fdiv(5, 2) AS d, fmod(5.1, 2) AS e, bit_count(31) AS f, gamma(5.5) AS g, round_even(24.5, 0) AS h, signbit(-1.0) AS i, isfinite(5.5) AS j, @ (-17) AS k, factorial(4) AS l, cot(0.5) AS m, xor(17, 5) AS n, trunc(17.4) AS o, radians(90) AS p, isinf('Infinity'::float) AS q, 5 // 2 AS r, 4 ^ 2 AS s, 3 ** 2 AS t, log2(8) AS u, lgamma(2) AS v, nextafter(1::double, 2::double) AS w, asinh(0.5) AS x, mod(5, 2) AS y, pow(2, 3) AS z, exp(1) AS z1, sign(-349) AS z2, ln(2) AS z3 FROM rides WHERE ride_id = 1;
--- duckdb
=
=== window-options table
SELECT empno, lag(salary, 1, 0) OVER (PARTITION BY dept ORDER BY empno) AS a, sum(salary) OVER (PARTITION BY dept ORDER BY salary RANGE BETWEEN 700 PRECEDING AND 700 FOLLOWING) AS b, nth_value(empno, 2) OVER (PARTITION BY dept ORDER BY empno) AS c, ntile(2) OVER (PARTITION BY dept ORDER BY empno) AS d, median(salary) OVER (PARTITION BY dept) AS e, last_value(empno) OVER (PARTITION BY dept ORDER BY empno ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS f, count(*) FILTER (WHERE salary > 4500) OVER (PARTITION BY dept) AS g, max(salary) OVER (ORDER BY empno ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES) AS h FROM pay;
--- duckdb
=
=== aggregate-page table
SELECT city, arg_max(driver, fare) AS a, histogram(paid_by)['card'] AS b, mode(paid_by) AS c, median(fare) AS d, mad(fare) AS e, skewness(fare) AS f, list(tip ORDER BY ride_id) FILTER (WHERE tip > 0) AS g, string_agg(driver, '|' ORDER BY ride_id) AS h, entropy(paid_by) AS i, covar_samp(km, fare) AS j, regr_intercept(fare, km) AS k, max(fare, 2) AS l, bool_and(km > 1) AS m, count(DISTINCT driver) AS n, arg_min(ride_id, km, 2) AS o, sum(fare) FILTER (paid_by = 'card') AS p, quantile_cont(km, 0.75) AS q, first(driver ORDER BY picked_at) AS r, approx_count_distinct(driver) AS s FROM rides WHERE city <> 'Tromso' GROUP BY city;
--- duckdb
SELECT city, arg_max(driver, fare) AS a, histogram(paid_by)['card'] AS b, mode(paid_by ORDER BY ride_id) AS c, median(fare) AS d, mad(fare) AS e, skewness(fare) AS f, list(tip ORDER BY ride_id) FILTER (WHERE tip > 0) AS g, string_agg(driver, '|' ORDER BY ride_id) AS h, entropy(paid_by) AS i, covar_samp(km, fare) AS j, regr_intercept(fare, km) AS k, max(fare, 2) AS l, bool_and(km > 1) AS m, count(DISTINCT driver) AS n, arg_min(ride_id, km, 2) AS o, sum(fare) FILTER (paid_by = 'card') AS p, quantile_cont(km, 0.75) AS q, first(driver ORDER BY picked_at) AS r, approx_count_distinct(driver) AS s FROM rides WHERE city <> 'Tromso' GROUP BY city
=== macro-and-prefix-alias table
CREATE MACRO add_tax(a, rate := 0.25) AS a * (1 + rate);
SELECT empno, taxed: add_tax(salary), less: add_tax(salary, rate := 0.5) FROM pay WHERE dept = 'hr';
--- duckdb
SELECT empno, salary * 1.25, salary * 1.5 FROM pay WHERE dept = 'hr'
=== read-csv-function table
SELECT shop, coalesce(jan, 0) + coalesce(feb, 0) AS two FROM read_csv('${data}/totals.csv');
--- duckdb
SELECT shop, coalesce(jan, 0) + coalesce(feb, 0) FROM totals
