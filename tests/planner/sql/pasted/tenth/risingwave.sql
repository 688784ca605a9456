CREATE SOURCE rides (ride_id INT, driver VARCHAR, city VARCHAR, km DOUBLE PRECISION, fare DOUBLE PRECISION, tip DOUBLE PRECISION, paid_by VARCHAR, picked_at TIMESTAMP, dropped_at TIMESTAMP, WATERMARK FOR picked_at AS picked_at - INTERVAL '10 minutes') WITH (connector = 'filesystem', path = '${data}/rides.csv') FORMAT PLAIN ENCODE CSV;
CREATE TABLE drivers (driver VARCHAR PRIMARY KEY, full_name VARCHAR, rating DOUBLE PRECISION, home VARCHAR, hired DATE) WITH (connector = 'filesystem', path = '${data}/drivers.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE complaints (complaint_id INT, ride_id INT, reason VARCHAR, made_at TIMESTAMP, WATERMARK FOR made_at AS made_at) WITH (connector = 'filesystem', path = '${data}/complaints.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE rates (city VARCHAR, surge DOUBLE PRECISION, since TIMESTAMP, WATERMARK FOR since AS since) WITH (connector = 'filesystem', path = '${data}/rates.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE logs (host VARCHAR, at TIMESTAMP, level VARCHAR, msg VARCHAR, labels VARCHAR[], nums INT[], ctx STRUCT<"user" VARCHAR, geo STRUCT<cc VARCHAR, lat DOUBLE PRECISION>>, doc JSONB, WATERMARK FOR at AS at) WITH (connector = 'filesystem', path = '${data}/logs.jsonl') FORMAT PLAIN ENCODE JSON;
=== tumble-offset-city rows
SELECT window_start, window_end, city, count(*) AS n, sum(fare) AS total FROM TUMBLE(rides, picked_at, INTERVAL '1 hour', INTERVAL '30 minutes') GROUP BY window_start, window_end, city;
--- duckdb
SELECT time_bucket(INTERVAL 1 HOUR, picked_at, TIMESTAMP '2025-01-01 00:30:00') w, w + INTERVAL 1 HOUR, city, count(*), sum(fare) FROM rides GROUP BY w, city
=== hop-distinct-having rows
CREATE MATERIALIZED VIEW busy AS
SELECT city, window_start, count(DISTINCT driver) AS drivers, max(km) AS longest
FROM HOP(rides, picked_at, INTERVAL '30 MINUTES', INTERVAL '60 MINUTES')
GROUP BY city, window_start HAVING count(DISTINCT driver) >= 2;
SELECT * FROM busy;
--- duckdb
SELECT city, s, count(DISTINCT driver) d, max(km) FROM rides, (SELECT unnest(generate_series(TIMESTAMP '2025-09-01 07:30:00', TIMESTAMP '2025-09-02 01:00:00', INTERVAL 30 MINUTE)) s) WHERE picked_at >= s AND picked_at < s + INTERVAL 1 HOUR GROUP BY city, s HAVING d >= 2
=== lag-emit-on-close rows
SELECT ride_id, driver, picked_at - lag(dropped_at) OVER (PARTITION BY driver ORDER BY picked_at) AS idle, first_value(fare) OVER (PARTITION BY driver ORDER BY picked_at) AS first_fare FROM rides EMIT ON WINDOW CLOSE;
--- duckdb
SELECT ride_id, driver, picked_at - lag(dropped_at) OVER (PARTITION BY driver ORDER BY picked_at), first_value(fare) OVER (PARTITION BY driver ORDER BY picked_at) FROM rides
=== generated-columns rows
CREATE TABLE r2 (ride_id INT, fare DOUBLE PRECISION, km DOUBLE PRECISION, picked_at TIMESTAMP, per_km DOUBLE PRECISION AS fare / km, day DATE AS picked_at::date, WATERMARK FOR picked_at AS picked_at - INTERVAL '1 minute', PRIMARY KEY (ride_id)) APPEND ONLY WITH (connector = 'filesystem', path = '${data}/rides.csv') FORMAT PLAIN ENCODE CSV;
SELECT ride_id, round(per_km::numeric, 2) AS pk, day FROM r2 WHERE per_km > 2.5;
--- duckdb
SELECT ride_id, round(fare / km, 2), picked_at::DATE FROM rides WHERE fare / km > 2.5
=== jsonb-edit-operators rows
SELECT host, doc - 'tags' AS less, doc || '{"z": 9}'::jsonb AS more, doc #- '{b,c}' AS cut, doc ? 'a' AS has_a, doc ?| ARRAY['zz', 'b'] AS any_of, doc ?& ARRAY['a', 'b'] AS all_of, jsonb_set(doc, '{a}', '7') AS seven, jsonb_array_length(doc -> 'tags') AS n, jsonb_typeof(doc -> 'b') AS t, jsonb_extract_path_text(doc, 'b', 'c') AS p FROM logs WHERE host = 'web1' AND level = 'INFO';
--- duckdb
VALUES ('web1', '{"a":1,"b":{"c":"x"}}', '{"a":1,"b":{"c":"x"},"z":9,"tags":["p","q"]}', '{"a":1,"b":{},"tags":["p","q"]}', true, true, true, '{"a":7,"b":{"c":"x"},"tags":["p","q"]}', 2, 'object', 'x')
=== math-page rows
SELECT ride_id, abs(-km) AS a, ceil(km) AS c, ceiling(fare) AS c2, floor(km) AS f, round(km) AS r, round(fare::numeric, 1) AS r1, trunc(km) AS t, sqrt(16.0) AS s, cbrt(27) AS cb, exp(0.0) AS e, ln(1.0) AS l, log10(100) AS l10, log(1000) AS lg, pow(2, 5) AS p, sign(-3) AS sg, pi() > 3.14 AS pi, mod(ride_id, 3) AS m, ride_id & 1 AS ba, ride_id | 8 AS bo, ~ride_id AS bn, 1 << ride_id AS sl, |/ 25 AS sr, @ (-4) AS ab, degrees(pi()) AS dg, sinh(0) AS sh, cot(1) > 0.6 AS ct, greatest(1, ride_id) AS g, atan2(0, 1) AS at FROM rides WHERE ride_id IN (1, 2);
--- duckdb
SELECT ride_id, km, ceil(km), ceil(fare), floor(km), round(km), round(fare, 1), trunc(km), 4, 3, 1, 0, 2, 3, 32, -1, true, ride_id % 3, ride_id & 1, ride_id | 8, ~ride_id, 1 << ride_id, 5, 4, 180, 0, true, ride_id, 0 FROM rides WHERE ride_id IN (1, 2)
=== string-page rows
SELECT host, overlay(level PLACING 'xx' FROM 2 FOR 2) AS o, translate(level, 'IN', 'in') AS tr, format('%s is %s', host, level) AS fm, initcap('hello wORLD') AS ic, ascii('x') AS a, chr(65) AS ch, octet_length('ñ') AS ol, bit_length('ab') AS bl, strpos(msg, '/') AS sp, lpad(level, 6, '.') AS lp, rpad(level, 2) AS rp, to_hex(255) AS hx, starts_with(msg, 'GET') AS sw, regexp_count(msg, '\d+') AS rc, regexp_replace(msg, '\d+', '#', 'g') AS rr, string_to_array(msg, ' ') AS sa, array_to_string(labels, '|') AS ats, concat_ws('-', host, NULL, level) AS cw, btrim('xxaxx', 'x') AS bt, ltrim('  a') AS lt, char_length(msg) AS cl, repeat('ab', 2) AS rep, encode('abc'::bytea, 'hex') AS en, regexp_match(msg, '/(\w+)/(\d+)') AS rm, substr(msg, 5, 4) AS su, left(msg, -4) AS le FROM logs WHERE host = 'web1' AND level = 'INFO';
--- duckdb
VALUES ('web1', 'IxxO', 'inFO', 'web1 is INFO', 'Hello World', 120, 'A', 2, 16, 5, '..INFO', 'IN', 'ff', true, 3, 'GET /items/# # #ms', ['GET', '/items/17', '200', '12ms'], 'prod|eu', 'web1-INFO', 'a', 'a', 22, 'abab', '616263', ['items', '17'], '/ite', 'GET /items/17 200 ')
=== time-page rows
SELECT ride_id, extract(epoch FROM dropped_at - picked_at) AS secs, date_part('hour', picked_at) AS h, to_char(picked_at, 'YYYY-MM-DD HH24:MI:SS') AS c, date_trunc('hour', picked_at) AS dt, picked_at + INTERVAL '1 day 2 hours' AS later, make_timestamp(2025, 9, 1, 8, 0, 30) AS mk, to_timestamp(1756713600) AT TIME ZONE 'Europe/Oslo' AS oslo, extract(dow FROM picked_at) AS dow, picked_at::date AS d, picked_at::date - DATE '2025-08-01' AS days, to_date('20250901', 'YYYYMMDD') AS td, make_date(2024, 2, 29) AS md, INTERVAL '90 minutes' * 2 AS im, extract(week FROM picked_at) AS wk, date_part('month', picked_at) AS mo FROM rides WHERE ride_id = 4;
--- duckdb
SELECT ride_id, 1200, 8, '2025-09-01 08:15:00', TIMESTAMP '2025-09-01 08:00:00', TIMESTAMP '2025-09-02 10:15:00', TIMESTAMP '2025-09-01 08:00:30', TIMESTAMP '2025-09-01 10:00:00', 1, DATE '2025-09-01', 31, DATE '2025-09-01', DATE '2024-02-29', INTERVAL 3 HOUR, 36, 9 FROM rides WHERE ride_id = 4
=== aggregate-page table
SELECT city, string_agg(driver, ',' ORDER BY ride_id) AS ds, array_agg(ride_id ORDER BY fare DESC) FILTER (WHERE tip IS NOT NULL) AS ids, stddev_pop(km) AS sp, var_pop(km) AS vp, bit_or(ride_id) AS bo, bool_and(fare > 4) AS ba, first_value(ride_id ORDER BY fare DESC, ride_id) AS top, last_value(ride_id ORDER BY fare DESC, ride_id) AS low, percentile_disc(0.5) WITHIN GROUP (ORDER BY km) AS pd, sum(DISTINCT fare) AS sd, count(tip) AS tips, max(paid_by) AS mp, jsonb_agg(ride_id ORDER BY ride_id) AS ja FROM rides GROUP BY city;
--- duckdb
SELECT city, string_agg(driver, ',' ORDER BY ride_id), list(ride_id ORDER BY fare DESC) FILTER (WHERE tip IS NOT NULL), stddev_pop(km), var_pop(km), bit_or(ride_id), bool_and(fare > 4), first(ride_id ORDER BY fare DESC, ride_id), last(ride_id ORDER BY fare DESC, ride_id), quantile_disc(km, 0.5), sum(DISTINCT fare), count(tip), max(paid_by), '[' || string_agg(ride_id::VARCHAR, ',' ORDER BY ride_id) || ']' FROM rides GROUP BY city
=== array-page rows
SELECT host, array_sort(nums) AS s, nums[1] AS one, nums[1:2] AS sl, cardinality(nums) AS n, array_prepend(0, nums) AS pre, array_positions(nums, 5) AS ps, array_max(nums) AS mx, nums || ARRAY[7] AS cat, nums @> ARRAY[5] AS has, ARRAY[5, 1] && nums AS ov, array_cat(labels, ARRAY['z']) AS lc, array_upper(nums, 1) AS up, array_reverse(nums) AS rv, 'prod' = ANY(labels) AS prod, array_join(labels, '+') AS jn FROM logs WHERE host = 'web2';
--- duckdb
VALUES ('web2', [5, 5], 5, [5, 5], 2, [0, 5, 5], [1, 2], 5, [5, 5, 7], true, true, ['prod', 'z'], 2, [5, 5], true, 'prod')
=== series-of-times rows
SELECT generate_series AS hour FROM generate_series(TIMESTAMP '2025-09-01 08:00:00', TIMESTAMP '2025-09-01 10:00:00', INTERVAL '1 hour');
--- duckdb
SELECT unnest(generate_series(TIMESTAMP '2025-09-01 08:00:00', TIMESTAMP '2025-09-01 10:00:00', INTERVAL 1 HOUR))
=== interval-join-complaints rows
SELECT r.ride_id, c.reason, c.made_at - r.dropped_at AS after FROM rides r JOIN complaints c ON r.ride_id = c.ride_id AND c.made_at BETWEEN r.picked_at AND r.picked_at + INTERVAL '30 minutes';
--- duckdb
SELECT r.ride_id, c.reason, c.made_at - r.dropped_at FROM rides r JOIN complaints c ON r.ride_id = c.ride_id AND c.made_at BETWEEN r.picked_at AND r.picked_at + INTERVAL 30 MINUTE
=== struct-star-and-map rows
SELECT host, (ctx).geo.cc AS cc, (ctx)."user" AS u, ((ctx).geo).lat + 1 AS lat, ROW(host, 1) AS r, MAP {'a': 1, 'b': 2} AS m, map_keys(MAP {'k': 3}) AS k, map_access(MAP {'k': 3}, 'k') AS v, map_length(MAP {'k': 3}) AS n, map_contains(MAP {'k': 3}, 'q') AS c, map_from_entries(ARRAY[ROW('x', 4)])['x'] AS x, map_cat(MAP {'a': 1}, MAP {'b': 2})['b'] AS b FROM logs WHERE host = 'web2';
--- duckdb
SELECT 'web2', 'SE', 'u2', 60.25, {'f1': 'web2', 'f2': 1}, ['(''a'', 1)', '(''b'', 2)'], ['k'], 3, 1, false, 4, 2
=== top-two-per-city-eowc rows
SELECT window_start, city, ride_id FROM (
  SELECT window_start, city, ride_id, row_number() OVER (PARTITION BY window_start, city ORDER BY fare DESC) AS rn
  FROM TUMBLE(rides, picked_at, INTERVAL '1 hour')) WHERE rn <= 1 EMIT ON WINDOW CLOSE;
--- duckdb
SELECT time_bucket(INTERVAL 1 HOUR, picked_at) w, city, ride_id FROM rides QUALIFY row_number() OVER (PARTITION BY w, city ORDER BY fare DESC) = 1
