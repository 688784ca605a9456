CREATE TABLE rides (ride_id int, driver text, city text, km double precision, fare double precision, tip double precision, paid_by text, picked_at timestamp, dropped_at timestamp, WATERMARK FOR picked_at AS picked_at) WITH (path = '${data}/rides.csv');
CREATE TABLE drivers (driver text, full_name text, rating double precision, home text, hired date) WITH (path = '${data}/drivers.csv');
CREATE TABLE complaints (complaint_id int, ride_id int, reason text, made_at timestamp, WATERMARK FOR made_at AS made_at) WITH (path = '${data}/complaints.csv');
CREATE TABLE logs (host text, at timestamp, level text, msg text, labels text[], nums int[], ctx STRUCT<"user" text, geo STRUCT<cc text, lat double precision>>, doc jsonb, WATERMARK FOR at AS at) WITH (path = '${data}/logs.jsonl');
=== top-rides-of-drivers table
SELECT d.full_name, r.ride_id, r.fare FROM drivers d,
  LATERAL (SELECT ride_id, fare FROM rides WHERE rides.driver = d.driver ORDER BY fare DESC, ride_id LIMIT 2) r;
--- duckdb
SELECT full_name, ride_id, fare FROM drivers d JOIN (SELECT * FROM rides QUALIFY row_number() OVER (PARTITION BY driver ORDER BY fare DESC, ride_id) <= 2) r USING (driver)
=== last-value-in-group table
SELECT r.driver, r.ride_id, r.fare, l.last_fare FROM rides r
JOIN (SELECT DISTINCT ON (driver) driver, fare AS last_fare FROM rides ORDER BY driver, picked_at DESC) l USING (driver);
--- duckdb
SELECT driver, ride_id, fare, last_value(fare) OVER (PARTITION BY driver ORDER BY picked_at ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM rides
=== grace-period-filter rows
SELECT ride_id FROM rides WHERE mz_now() <= picked_at + INTERVAL '1 hour' AND mz_now() >= picked_at;
--- duckdb
SELECT ride_id FROM rides
=== jsonb-edit rows
SELECT host, doc - 'tags' AS less, doc || '{"z": 9}' AS more, doc ? 'b' AS has_b, doc @> '{"a": 1}' AS a_is_one, doc -> 'tags' -> 0 AS t0, doc -> 'tags' ->> -1 AS last, doc #>> '{b,c}' AS bc, jsonb_strip_nulls('{"a": 1, "b": null}'::jsonb) AS st, jsonb_typeof(doc -> 'a') AS ty, to_jsonb(nums) AS tj FROM logs WHERE level = 'INFO' AND doc IS NOT NULL;
--- duckdb
VALUES ('web1', '{"a":1,"b":{"c":"x"}}', '{"a":1,"b":{"c":"x"},"z":9,"tags":["p","q"]}', true, true, '"p"', 'q', 'x', '{"a":1}', 'number', '[3,1,2]')
=== jsonb-each-text rows
SELECT l.host, e.key, e.value FROM logs l, jsonb_each_text(l.doc) AS e (key, value) WHERE e.key <> 'tags';
--- duckdb
VALUES ('web1', 'a', '1'), ('web1', 'b', '{"c":"x"}'), ('web2', 'a', '2'), ('web2', 'b', '{"c":null}'), ('web1', 'a', NULL)
=== regexp-functions rows
SELECT host, regexp_split_to_array(msg, '\s+') AS parts, regexp_replace(msg, '(\w+) /(\w+)', '$2:$1') AS swapped, split_part(msg, ' ', 3)::int AS status, substring(msg, 1, 3) AS verb, msg LIKE '%/items/%' AS items, msg ~ '5\d\d' AS bad, ltrim(reverse('abc'), 'c') AS lr, position('/' IN msg) AS pos, concat(host, ':', level) AS c, upper(level) = level AS up, char_length(msg) AS n FROM logs WHERE at < '2025-09-01 08:01:00';
--- duckdb
SELECT host, string_split(msg, ' '), regexp_replace(msg, '(\w+) /(\w+)', '\2:\1'), split_part(msg, ' ', 3)::INT, msg[1:3], msg LIKE '%/items/%', regexp_matches(msg, '5\d\d'), 'ba', position('/' IN msg), host || ':' || level, true, length(msg) FROM logs WHERE "at" < '2025-09-01 08:01:00'
=== unnest-count-words table
SELECT word, count(*) AS n FROM logs, unnest(string_to_array(msg, ' ')) AS word GROUP BY word HAVING count(*) > 1;
--- duckdb
SELECT w, count(*) FROM (SELECT unnest(string_split(msg, ' ')) w FROM logs) GROUP BY w HAVING count(*) > 1
=== date-functions-page rows
SELECT ride_id, date_part('minute', picked_at) AS m, date_trunc('day', picked_at) AS d, timezone('America/New_York', picked_at::timestamptz) AS ny, justify_hours(INTERVAL '27 hours') = INTERVAL '1 day 3 hours' AS j, to_char(picked_at, 'HH12:MI AM') AS c, extract(epoch FROM picked_at) AS e, date_bin('15 minutes', picked_at, '2025-01-01') AS b, age(dropped_at, picked_at) AS a, picked_at::time AS t, extract(hour FROM dropped_at - picked_at) AS h FROM rides WHERE ride_id = 7;
--- duckdb
SELECT ride_id, 0, TIMESTAMP '2025-09-01', TIMESTAMP '2025-09-01 05:00:00', true, '09:00 AM', epoch(picked_at), TIMESTAMP '2025-09-01 09:00:00', dropped_at - picked_at, TIME '09:00:00', 0 FROM rides WHERE ride_id = 7
=== full-outer-using table
SELECT coalesce(d.home, c.city) AS place, d.n AS drivers, c.n AS rides FROM
 (SELECT home, count(*) AS n FROM drivers GROUP BY home) d FULL OUTER JOIN (SELECT city, count(*) AS n FROM rides WHERE city <> 'Tromso' GROUP BY city) c ON d.home = c.city;
--- duckdb
VALUES ('Oslo', 2, 5), ('Bergen', 1, 4), ('Tromso', 1, NULL)
=== correlated-max-exists table
SELECT r.ride_id, r.driver FROM rides r WHERE r.fare = (SELECT max(fare) FROM rides i WHERE i.driver = r.driver) AND EXISTS (SELECT 1 FROM drivers d WHERE d.driver = r.driver AND d.rating IS NOT NULL);
--- duckdb
VALUES (2, 'd2'), (8, 'd1')
=== recursive-graph table
WITH MUTUALLY RECURSIVE reach (a int, b int) AS (SELECT ride_id, complaint_id FROM complaints UNION SELECT r.a, c.complaint_id FROM reach r JOIN complaints c ON c.ride_id = r.b)
SELECT * FROM reach;
--- duckdb
SELECT ride_id, complaint_id FROM complaints
=== insert-then-view table
CREATE TABLE fares (kind text NOT NULL, price numeric(6, 2));
INSERT INTO fares VALUES ('day', 20.5), ('hour', 4), ('week', 99.99);
CREATE MATERIALIZED VIEW cheap AS SELECT kind, price * 2 AS two FROM fares WHERE price < 50;
SELECT * FROM cheap;
--- duckdb
VALUES ('day', 41), ('hour', 8)
=== list-and-map table
SELECT city, list_agg(driver ORDER BY ride_id) AS l, map_agg(ride_id::text, driver) IS NOT NULL AS m, list_length(list_agg(driver)) AS n, count(*) FILTER (WHERE tip > 1) AS good, sum(tip) AS tips, avg(fare)::numeric(8, 2) AS a FROM rides WHERE city <> 'Tromso' GROUP BY city;
--- duckdb
SELECT city, list(driver ORDER BY ride_id), true, count(*), count(*) FILTER (WHERE tip > 1), sum(tip), round(avg(fare), 2) FROM rides WHERE city <> 'Tromso' GROUP BY city
=== sums-by-window-idiom table
SELECT r.ride_id, r.driver, sum(p.fare) AS running FROM rides r JOIN rides p ON p.driver = r.driver AND p.picked_at <= r.picked_at GROUP BY r.ride_id, r.driver;
--- duckdb
SELECT ride_id, driver, sum(fare) OVER (PARTITION BY driver ORDER BY picked_at) FROM rides
