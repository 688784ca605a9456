CREATE STREAM payments (pid INT KEY, account VARCHAR, amount DOUBLE, currency VARCHAR, status VARCHAR, ptime TIMESTAMP)
  WITH (KAFKA_TOPIC='payments', PATH='${data}/payments.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='ptime', PARTITIONS=1);
CREATE STREAM fills (fid INT KEY, pid INT, venue VARCHAR, ftime TIMESTAMP)
  WITH (PATH='${data}/fills.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='ftime');
CREATE STREAM clicks (user VARCHAR, url VARCHAR, cts TIMESTAMP, tags ARRAY<VARCHAR>, props VARCHAR, geo STRUCT<country VARCHAR, city VARCHAR>)
  WITH (PATH='${data}/clicks.jsonl', VALUE_FORMAT='JSON', TIMESTAMP='cts');
CREATE TABLE fx (currency VARCHAR PRIMARY KEY, rate DOUBLE, valid_from TIMESTAMP)
  WITH (PATH='${data}/fx.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='valid_from');
=== retention-grace rows
CREATE TABLE hourly WITH (KAFKA_TOPIC='hourly') AS
  SELECT account, COUNT(*) AS n, WINDOWSTART AS ws, WINDOWEND AS we FROM payments
  WINDOW TUMBLING (SIZE 10 MINUTES, RETENTION 7 DAYS, GRACE PERIOD 30 MINUTES)
  GROUP BY account EMIT FINAL;
SELECT account, n, ws, we FROM hourly EMIT CHANGES;
--- duckdb
SELECT account, count(*), epoch_ms(w), epoch_ms(w + INTERVAL 10 MINUTE) FROM (SELECT *, time_bucket(INTERVAL 10 MINUTE, ptime) w FROM payments) GROUP BY account, w
=== csas-filter rows
CREATE STREAM failed WITH (KAFKA_TOPIC='failed', VALUE_FORMAT='JSON') AS SELECT pid, account, UCASE(status) AS status FROM payments WHERE status <> 'ok' EMIT CHANGES;
SELECT * FROM failed EMIT CHANGES;
--- duckdb
SELECT pid, account, upper(status) FROM payments WHERE status <> 'ok'
=== full-outer-within rows
SELECT COALESCE(p.pid, f.pid) AS k, p.pid AS pid, f.fid AS fid FROM payments p FULL OUTER JOIN fills f WITHIN 2 MINUTES GRACE PERIOD 0 SECONDS ON p.pid = f.pid EMIT CHANGES;
--- duckdb
SELECT coalesce(p.pid, f.pid), p.pid, f.fid FROM payments p FULL JOIN fills f ON p.pid = f.pid AND abs(epoch(f.ftime) - epoch(p.ptime)) <= 120
=== array-builtins rows
SELECT ARRAY_EXCEPT(ARRAY[1, 2, 3], ARRAY[2]) AS a, ARRAY_INTERSECT(ARRAY[1, 2], ARRAY[2, 5]) AS b, ARRAY_UNION(ARRAY[1, 2], ARRAY[2, 3]) AS c, ARRAY_MIN(ARRAY[3, 1]) AS d, ARRAY_REMOVE(ARRAY[1, 2, 1], 1) AS e, ARRAY_SORT(ARRAY[2, 3, 1], 'DESC') AS f, ARRAY_CONCAT(ARRAY[1], ARRAY[2]) AS g, GENERATE_SERIES(1, 5, 2) AS h, ARRAY[10, 20][2] AS i
FROM payments WHERE pid = 1 EMIT CHANGES;
--- duckdb
VALUES ([1, 3], [2], [1, 2, 3], 1, [2], [3, 2, 1], [1, 2], [1, 3, 5], 20)
=== map-builtins rows
SELECT MAP('a' := 1) AS a, MAP_KEYS(MAP('a' := 1)) AS b, MAP_VALUES(MAP('a' := 1)) AS c, MAP_UNION(MAP('a' := 1), MAP('b' := 2))['b'] AS d, TRANSFORM(MAP('a' := 1), (k, v) => UCASE(k), (k, v) => v + 1) AS e, FILTER(MAP('a' := 1, 'b' := 2), (k, v) => v > 1) AS f, STRUCT(x := 1, y := 'z')->y AS g
FROM payments WHERE pid = 1 EMIT CHANGES;
--- duckdb
VALUES (['(''a'', 1)'], ['a'], [1], 2, ['(''A'', 2)'], ['(''b'', 2)'], 'z')
=== string-builtins rows
SELECT CHR(75) AS a, TRIM('  x ') AS b, RPAD('Foo', 7, 'Ba') AS c, REGEXP_REPLACE('a1b2', '[0-9]', '#') AS d, REGEXP_SPLIT_TO_ARRAY('a1b2c', '[0-9]') AS e, MASK_KEEP_LEFT('My Test $123', 4) AS f, SUBSTRING('stream', 2) AS g, CONCAT_WS(', ', 'apple', NULL, 'date') AS h, JSON_ARRAY_CONTAINS('[1, 2]', 2) AS j, IS_JSON_STRING('[1]') AS k, JSON_ARRAY_LENGTH('[1,2]') AS l, JSON_KEYS('{"a": 1}') AS m, TO_JSON_STRING(pid) AS n, URL_EXTRACT_HOST('http://x.org:80/p') AS o, REPLACE('foobar', 'foo', 'bar') AS p, LEAST(3, NULL, 2) AS q, INSTR('CORPORATE FLOOR', 'OR', 3) AS r
FROM payments WHERE pid = 1 EMIT CHANGES;
--- duckdb
VALUES ('K', 'x', 'FooBaBa', 'a#b#', ['a', 'b', 'c'], 'My Txxx--nnn', 'tream', 'apple, date', true, true, 2, ['a'], '1', 'x.org', 'barbar', 2, 5)
=== time-builtins rows
SELECT TIMESTAMPTOSTRING(ROWTIME, 'yyyy-MM-dd HH:mm:ss', 'Europe/Berlin') AS a, STRINGTOTIMESTAMP('2026-01-02 03:04', 'yyyy-MM-dd HH:mm') AS b, CONVERT_TZ(ptime, 'UTC', 'America/New_York') AS c, DATEADD(DAYS, 2, PARSE_DATE('2026-01-01', 'yyyy-MM-dd')) AS d, TIMESTAMPSUB(MINUTES, 5, ptime) AS e, FORMAT_DATE(PARSE_DATE('2026-01-01', 'yyyy-MM-dd'), 'dd.MM.yyyy') AS f, FROM_UNIXTIME(1000) AS g, UNIX_DATE(PARSE_DATE('1970-01-03', 'yyyy-MM-dd')) AS h, FROM_DAYS(2) AS i, DATESUB(DAYS, 1, PARSE_DATE('2026-01-01', 'yyyy-MM-dd')) AS j
FROM payments WHERE pid = 1 EMIT CHANGES;
--- duckdb
VALUES ('2026-03-01 09:00:00', 1767323040000, TIMESTAMP '2026-03-01 03:00:00', DATE '2026-01-03', TIMESTAMP '2026-03-01 07:55:00', '01.01.2026', TIMESTAMP '1970-01-01 00:00:01', 2, DATE '1970-01-03', DATE '2025-12-31')
=== aggregates-two table
SELECT account, TOPKDISTINCT(amount, 1) AS a, STDDEV_SAMPLE(amount) AS b, EARLIEST_BY_OFFSET(pid, 2) AS c, COLLECT_SET(status) AS d, SUM(pid) AS e FROM payments WHERE account = 'a2' GROUP BY account EMIT CHANGES;
--- duckdb
VALUES ('a2', [200.0], 76.8656837166, [2, 5], ['ok', 'failed'], 14)
=== math-and-casts rows
SELECT LOG(2, 8) AS a, LN(1) AS b, ROUND(2.345, 2) AS c, SIGN(-4) AS d, SQRT(9) AS e, TRUNC(2.789, 1) AS f, POWER(2, 3) AS g, ABS(-2) AS h, CEIL(1.1) AS i, CAST('12.345' AS DECIMAL(4, 1)) AS j, CAST(pid AS STRING) AS k, CAST('7' AS BIGINT) AS l, ROUND(GEO_DISTANCE(0, 0, 0, 1, 'KM'), 2) AS m, pid + 1.5 AS n, PI() AS o
FROM payments WHERE pid = 1 EMIT CHANGES;
--- duckdb
VALUES (3, 0, 2.35, -1, 3, 2.7, 8, 2, 2, 12.3, '1', 7, 111.19, 2.5, pi())
=== three-way-join rows
SELECT p.pid AS pid, f.venue, fx.rate FROM payments p INNER JOIN fills f WITHIN 2 MINUTES ON p.pid = f.pid INNER JOIN fx ON p.currency = fx.currency EMIT CHANGES;
--- duckdb
SELECT p.pid, f.venue, r.rate FROM payments p JOIN fills f ON p.pid = f.pid AND abs(epoch(f.ftime) - epoch(p.ptime)) <= 120 ASOF JOIN fx r ON p.currency = r.currency AND greatest(p.ptime, f.ftime) >= r.valid_from
=== define-and-set rows
SET 'auto.offset.reset' = 'earliest';
DEFINE wanted = 'ok';
SELECT pid FROM payments WHERE status = '${wanted}' EMIT CHANGES;
--- duckdb
SELECT pid FROM payments WHERE status = 'ok'
=== limit-changes rows
SELECT pid, amount FROM payments EMIT CHANGES LIMIT 2;
--- duckdb
VALUES (1, 10.5), (2, 200)
=== cube-explode rows
SELECT user, EXPLODE(tags) AS tag, EXPLODE(tags) AS again FROM clicks WHERE user = 'bob' EMIT CHANGES;
--- duckdb
VALUES ('bob', 'us', 'us'), ('bob', 'us', 'us'), ('bob', 'old', 'old')
