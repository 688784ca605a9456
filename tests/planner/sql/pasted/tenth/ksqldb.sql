CREATE STREAM rides (ride_id INT KEY, driver VARCHAR, city VARCHAR, km DOUBLE, fare DOUBLE, tip DOUBLE, paid_by VARCHAR, picked_at TIMESTAMP, dropped_at TIMESTAMP)
  WITH (KAFKA_TOPIC='rides', PATH='${data}/rides.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='picked_at', PARTITIONS=1);
CREATE TABLE drivers (driver VARCHAR PRIMARY KEY, full_name VARCHAR, rating DOUBLE, home VARCHAR, hired DATE)
  WITH (KAFKA_TOPIC='drivers', PATH='${data}/drivers.csv', VALUE_FORMAT='DELIMITED');
CREATE STREAM complaints (complaint_id INT KEY, ride_id INT, reason VARCHAR, made_at TIMESTAMP)
  WITH (KAFKA_TOPIC='complaints', PATH='${data}/complaints.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='made_at');
CREATE TABLE rates (city VARCHAR PRIMARY KEY, surge DOUBLE, since TIMESTAMP)
  WITH (KAFKA_TOPIC='rates', PATH='${data}/rates.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='since');
CREATE STREAM logs (host VARCHAR KEY, at TIMESTAMP, level VARCHAR, msg VARCHAR, labels ARRAY<VARCHAR>, nums ARRAY<INT>, ctx STRUCT<user VARCHAR, geo STRUCT<cc VARCHAR, lat DOUBLE>>, doc VARCHAR)
  WITH (KAFKA_TOPIC='logs', PATH='${data}/logs.jsonl', VALUE_FORMAT='JSON', TIMESTAMP='at');
=== latest-with-nulls table
SELECT driver, LATEST_BY_OFFSET(tip) AS last_tip, LATEST_BY_OFFSET(tip, false) AS last_even_null, EARLIEST_BY_OFFSET(city) AS first_city, EARLIEST_BY_OFFSET(ride_id, 2) AS first_two, MAX(fare) AS top, COUNT(tip) AS tips FROM rides GROUP BY driver EMIT CHANGES;
--- duckdb
VALUES ('d1', 1.5, 1.5, 'Oslo', [1, 3], 10, 3), ('d2', 0, NULL, 'Oslo', [2, 5], 25, 1), ('d3', 1, 1, 'Bergen', [4, 6], 19.9, 2), ('d4', 6, 6, 'Tromso', [7], 61, 1)
=== session-with-grace rows
CREATE TABLE shifts AS SELECT driver, COUNT(*) AS rides, SUM(fare) AS earned, TIMESTAMPTOSTRING(WINDOWSTART, 'yyyy-MM-dd HH:mm:ss', 'UTC') AS began, (WINDOWEND - WINDOWSTART) / 1000 AS secs FROM rides WINDOW SESSION (30 MINUTES, GRACE PERIOD 5 MINUTES) GROUP BY driver EMIT FINAL;
SELECT driver, rides, earned, began, secs FROM shifts WHERE rides > 1 EMIT CHANGES;
--- duckdb
VALUES ('d1', 2, 12.75, '2025-09-01 08:00:00', 840), ('d2', 2, 16, '2025-09-01 08:41:00', 1510), ('d3', 2, 23.1, '2025-09-01 08:15:00', 1760)
=== distinct-clicks rows
CREATE TABLE detected AS
  SELECT driver AS key1, city AS key2, AS_VALUE(driver) AS driver, LATEST_BY_OFFSET(ride_id) AS last_ride, COUNT(*) AS n
  FROM rides WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 1 DAY) GROUP BY driver, city HAVING COUNT(driver) = 1 EMIT FINAL;
SELECT key1, key2, driver, last_ride FROM detected EMIT CHANGES;
--- duckdb
SELECT driver, city, driver, max(ride_id) FROM rides GROUP BY driver, city, time_bucket(INTERVAL 1 HOUR, picked_at) HAVING count(*) = 1
=== split-and-merge rows
CREATE STREAM oslo AS SELECT * FROM rides WHERE city = 'Oslo';
CREATE STREAM bergen AS SELECT * FROM rides WHERE city = 'Bergen';
CREATE STREAM coast AS SELECT ride_id, city, fare FROM bergen EMIT CHANGES;
INSERT INTO coast SELECT ride_id, city, fare FROM oslo WHERE fare > 20 EMIT CHANGES;
SELECT * FROM coast EMIT CHANGES;
--- duckdb
SELECT ride_id, city, fare FROM rides WHERE city = 'Bergen' OR city = 'Oslo' AND fare > 20
=== flatten-nested rows
CREATE STREAM flat WITH (KAFKA_TOPIC='flat', VALUE_FORMAT='JSON') AS SELECT host, ctx->user AS user_name, ctx->geo->cc AS country, ctx->geo->lat + 0.5 AS lat, ARRAY_LENGTH(labels) AS n, nums[1] AS first_num FROM logs PARTITION BY ctx->geo->cc EMIT CHANGES;
SELECT host, country, user_name, lat, n, first_num FROM flat EMIT CHANGES;
--- duckdb
SELECT host, ctx.geo.cc, ctx."user", ctx.geo.lat + 0.5, len(labels), nums[1] FROM logs
=== stream-table-enrich rows
SELECT r.ride_id AS id, d.full_name AS who, r.fare * d.rating AS score FROM rides r JOIN drivers d ON r.driver = d.driver WHERE d.home = r.city EMIT CHANGES;
--- duckdb
SELECT ride_id, full_name, fare * rating FROM rides r JOIN drivers d USING (driver) WHERE home = city
=== left-join-complaints rows
SELECT r.ride_id AS ride_id, c.reason AS reason FROM rides r LEFT JOIN complaints c WITHIN 1 HOUR GRACE PERIOD 10 MINUTES ON r.ride_id = c.ride_id EMIT CHANGES;
--- duckdb
SELECT r.ride_id, c.reason FROM rides r LEFT JOIN complaints c ON r.ride_id = c.ride_id AND abs(epoch(made_at) - epoch(picked_at)) <= 3600
=== lambda-maps rows
SELECT host, TRANSFORM(MAP('a' := 1, 'b' := 2), (k, v) => UCASE(k), (k, v) => v * 10)['B'] AS t, FILTER(MAP('a' := 1, 'b' := 2), (k, v) => v > 1) AS f, REDUCE(nums, 100, (s, x) => s + x) AS r, TRANSFORM(nums, x => x * x) AS sq, FILTER(labels, x => x LIKE 'p%') AS p, REDUCE(MAP('a' := 1, 'b' := 2), 0, (s, k, v) => s + v) AS m, ARRAY_SORT(nums) AS so, ARRAY_SORT(nums, 'DESC') AS sd, ARRAY_MIN(nums) AS mn, ARRAY_CONCAT(nums, ARRAY[7]) AS ac, ARRAY_INTERSECT(nums, ARRAY[1, 5]) AS ai FROM logs WHERE host = 'web1' AND level = 'INFO' EMIT CHANGES;
--- duckdb
SELECT 'web1', 20, ['(''b'', 2)'], 106, [9, 1, 4], ['prod'], 3, [1, 2, 3], [3, 2, 1], 1, [3, 1, 2, 7], [1]
=== pull-keys-in table
CREATE TABLE per_city AS SELECT city, COUNT(*) AS n, AVG(km) AS mean, COLLECT_LIST(ride_id) AS ids, COLLECT_SET(driver) AS ds FROM rides GROUP BY city EMIT CHANGES;
SELECT city, n, ids, ds FROM per_city WHERE city IN ('Oslo', 'Tromso');
--- duckdb
VALUES ('Oslo', 5, [1, 2, 3, 5, 9], ['d1', 'd2']), ('Tromso', 1, [7], ['d4'])
=== zones-and-times rows
SELECT ride_id, FORMAT_TIMESTAMP(picked_at, 'yyyy-MM-dd HH:mm:ss', 'America/New_York') AS ny, PARSE_TIMESTAMP('2025-09-01 10:00:00', 'yyyy-MM-dd HH:mm:ss', 'Europe/Oslo') AS utc, FORMAT_TIME(PARSE_TIME('08:30:00', 'HH:mm:ss'), 'HH:mm') AS ft, TIMEADD(MINUTES, 45, PARSE_TIME('08:30', 'HH:mm')) AS ta, DATETOSTRING(20332, 'dd-MM-yyyy') AS ds, STRINGTODATE('2025-09-01', 'yyyy-MM-dd') AS sd, TIMESTAMPADD(DAYS, -1, picked_at) AS y, UNIX_TIMESTAMP(dropped_at) - UNIX_TIMESTAMP(picked_at) AS ms, CAST(picked_at AS DATE) AS d FROM rides WHERE ride_id = 1 EMIT CHANGES;
--- duckdb
SELECT 1, '2025-09-01 04:00:00', TIMESTAMP '2025-09-01 08:00:00', '08:30', TIME '09:15:00', '01-09-2025', 20332, TIMESTAMP '2025-08-31 08:00:00', 660000, DATE '2025-09-01'
=== text-and-bytes rows
SELECT host, SUBSTRING(msg, -4) AS tail, INSTR(msg, '/', 1, 2) AS second, ENCODE('abc', 'utf8', 'hex') AS hx, ENCODE('616263', 'hex', 'utf8') AS back, FROM_BYTES(TO_BYTES('abc', 'utf8'), 'base64') AS b64, CONCAT_WS('-', host, level) AS cw, LCASE(level) AS lc, RPAD('x', 3, '.') AS rp, SPLIT(msg, ' ')[1] AS verb, REGEXP_EXTRACT('([0-9]+)ms', msg, 1) AS ms, CAST(REGEXP_EXTRACT('([0-9]+)ms', msg, 1) AS INT) + 1 AS more, host + '/' + level AS plus, msg LIKE 'GET%' AS g, LEN(msg) AS n, REPLACE(msg, ' ', '_') AS r, TO_BYTES('616263', 'hex') IS NOT NULL AS tb FROM logs WHERE host = 'web1' AND level = 'INFO' EMIT CHANGES;
--- duckdb
VALUES ('web1', '12ms', 11, '616263', 'abc', 'YWJj', 'web1-INFO', 'info', 'x..', 'GET', '12', 13, 'web1/INFO', true, 22, 'GET_/items/17_200_12ms', true)
=== explode-with-others rows
SELECT host, EXPLODE(labels) AS label, EXPLODE(nums) AS num FROM logs WHERE host <> 'web3' EMIT CHANGES;
--- duckdb
VALUES ('web1', 'prod', 3), ('web1', 'eu', 1), ('web1', NULL, 2), ('web2', 'prod', 5), ('web2', NULL, 5), ('web1', NULL, 9)
=== n-way-join rows
SELECT r.ride_id AS id, d.full_name AS who, s.surge AS surge, r.fare * s.surge AS due FROM rides r LEFT JOIN drivers d ON r.driver = d.driver INNER JOIN rates s ON r.city = s.city EMIT CHANGES;
--- duckdb
SELECT ride_id, full_name, surge, fare * surge FROM rides r LEFT JOIN drivers USING (driver) ASOF JOIN rates s ON r.city = s.city AND picked_at >= since
=== windowed-topk-case rows
SELECT city, WINDOWSTART AS ws, TOPK(fare, 2) AS top, SUM(CASE WHEN paid_by = 'card' THEN 1 ELSE 0 END) AS cards, MIN(km) AS shortest, COUNT_DISTINCT(driver) AS ds FROM rides WINDOW TUMBLING (SIZE 1 HOUR) WHERE km BETWEEN 1 AND 20 GROUP BY city EMIT FINAL;
--- duckdb
SELECT city, epoch_ms(w), t, c, m, d FROM (SELECT city, time_bucket(INTERVAL 1 HOUR, picked_at) w, max(fare, 2) t, count(*) FILTER (WHERE paid_by = 'card') c, min(km) m, count(DISTINCT driver) d FROM rides WHERE km BETWEEN 1 AND 20 GROUP BY ALL)
