CREATE TABLE Ticker (
  symbol STRING, price INT, tax INT, rowtime TIMESTAMP(3),
  WATERMARK FOR rowtime AS rowtime - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/ticker.csv', 'format' = 'csv');
CREATE TABLE clicks (
  `user` STRING, url STRING, cts TIMESTAMP(3), tags ARRAY<STRING>, props STRING,
  geo ROW<country STRING, city STRING>,
  WATERMARK FOR cts AS cts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/clicks.jsonl', 'format' = 'json');
CREATE TABLE payments (
  pid INT, account STRING, amount DECIMAL(10, 2), currency STRING, status STRING, ptime TIMESTAMP(3),
  WATERMARK FOR ptime AS ptime - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/payments.csv', 'format' = 'csv');
CREATE TABLE fills (
  fid INT, pid INT, venue STRING, ftime TIMESTAMP(3),
  WATERMARK FOR ftime AS ftime
) WITH ('connector' = 'filesystem', 'path' = '${data}/fills.csv', 'format' = 'csv');
CREATE TABLE fx (
  currency STRING, rate DOUBLE, valid_from TIMESTAMP(3),
  PRIMARY KEY (currency) NOT ENFORCED,
  WATERMARK FOR valid_from AS valid_from
) WITH ('connector' = 'filesystem', 'path' = '${data}/fx.csv', 'format' = 'csv');
CREATE TABLE meters (
  meter STRING, kwh DOUBLE, mtime TIMESTAMP_LTZ(3),
  WATERMARK FOR mtime AS mtime - INTERVAL '1' MINUTE
) WITH ('connector' = 'filesystem', 'path' = '${data}/meters.csv', 'format' = 'csv');
=== named-arguments rows
SELECT window_start, window_end, SUM(amount) AS total_price
FROM TUMBLE(
     DATA => TABLE payments,
     TIMECOL => DESCRIPTOR(ptime),
     SIZE => INTERVAL '10' MINUTES)
GROUP BY window_start, window_end;
--- duckdb
SELECT w, w + INTERVAL 10 MINUTE, sum(amount) FROM (SELECT *, time_bucket(INTERVAL 10 MINUTE, ptime) w FROM payments) GROUP BY w
=== window-grouping-sets rows
SELECT window_start, window_end, account, SUM(amount) AS total_price
FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ptime), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, GROUPING SETS ((account), ());
--- duckdb
SELECT w, w + INTERVAL 10 MINUTE, account, sum(amount) FROM (SELECT *, time_bucket(INTERVAL 10 MINUTE, ptime) w FROM payments) GROUP BY GROUPING SETS ((w, account), (w))
=== cascading-windows rows
CREATE VIEW window1 AS
SELECT window_start AS window_5mintumble_start, window_end AS window_5mintumble_end, window_time AS rowtime, SUM(amount) AS partial_price
  FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ptime), INTERVAL '5' MINUTES))
  GROUP BY account, window_start, window_end, window_time;
SELECT window_start, window_end, SUM(partial_price) AS total_price
  FROM TABLE(TUMBLE(TABLE window1, DESCRIPTOR(rowtime), INTERVAL '10' MINUTES))
  GROUP BY window_start, window_end;
--- duckdb
SELECT w, w + INTERVAL 10 MINUTE, sum(amount) FROM (SELECT *, time_bucket(INTERVAL 10 MINUTE, ptime) w FROM payments) GROUP BY w
=== legacy-hop rows
SELECT account, HOP_START(ptime, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE) AS s, HOP_END(ptime, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE) AS e, COUNT(*) AS n
FROM payments GROUP BY HOP(ptime, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE), account;
--- duckdb
SELECT account, s, s + INTERVAL 10 MINUTE, count(*) FROM payments, (SELECT unnest(generate_series(TIMESTAMP '2026-03-01 07:50:00', TIMESTAMP '2026-03-01 08:30:00', INTERVAL 5 MINUTE)) s) WHERE ptime >= s AND ptime < s + INTERVAL 10 MINUTE GROUP BY account, s
=== legacy-session rows
SELECT `user`, SESSION_START(cts, INTERVAL '30' MINUTE) AS s, SESSION_END(cts, INTERVAL '30' MINUTE) AS e, SESSION_ROWTIME(cts, INTERVAL '30' MINUTE) AS r, COUNT(*) AS n
FROM clicks GROUP BY SESSION(cts, INTERVAL '30' MINUTE), `user`;
--- duckdb
SELECT u, s::TIMESTAMP, e::TIMESTAMP, e::TIMESTAMP - INTERVAL 1 MILLISECOND, n FROM (VALUES ('bob', '2026-03-01 09:10:00', '2026-03-01 09:40:00', 1), ('bob', '2026-03-01 10:30:00', '2026-03-01 11:00:00', 1), ('liz', '2026-03-01 10:00:00', '2026-03-01 10:30:00', 1), ('liz', '2026-03-01 11:15:00', '2026-03-01 11:45:00', 1), ('mary', '2026-03-01 09:00:05', '2026-03-01 09:50:30', 2), ('mary', '2026-03-01 09:59:59', '2026-03-01 10:29:59', 1)) t(u, s, e, n)
=== top-n-without-rank table
SELECT account, pid, amount
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY account ORDER BY amount DESC) AS row_num
  FROM payments)
WHERE row_num <= 2;
--- duckdb
SELECT account, pid, amount FROM payments QUALIFY row_number() OVER (PARTITION BY account ORDER BY amount DESC) <= 2
=== regular-join table
SELECT p.pid, p.status, f.venue
FROM payments p INNER JOIN fills f ON p.pid = f.pid;
--- duckdb
SELECT p.pid, p.status, f.venue FROM payments p JOIN fills f ON p.pid = f.pid
=== group-distinct-split table
SELECT DATE_FORMAT(ptime, 'yyyy-MM-dd') AS dt, COUNT(DISTINCT account) AS uv,
  COUNT(DISTINCT account) FILTER (WHERE status IN ('ok')) AS ok_uv, COUNT(DISTINCT CASE WHEN amount > 50 THEN account ELSE NULL END) AS big
FROM payments GROUP BY DATE_FORMAT(ptime, 'yyyy-MM-dd');
--- duckdb
SELECT strftime(ptime, '%Y-%m-%d'), count(DISTINCT account), count(DISTINCT account) FILTER (WHERE status = 'ok'), count(DISTINCT account) FILTER (WHERE amount > 50) FROM payments GROUP BY 1
=== values-and-null-greatest rows
SELECT id, price, GREATEST(price, 2.5, 1.0) AS g, LEAST(id, CAST(NULL AS INT)) AS l FROM (VALUES (1, 2.0), (2, 3.1)) AS Orders (id, price);
--- duckdb
VALUES (1, 2.0, 2.5, NULL), (2, 3.1, 3.1, NULL)
=== set-operators table
(SELECT account FROM payments WHERE pid > 2) INTERSECT (SELECT account FROM payments WHERE pid <= 2)
UNION (SELECT 'zz' AS account FROM payments WHERE pid = 1);
--- duckdb
VALUES ('a1'), ('a2'), ('zz')
=== in-subquery table
SELECT pid, amount FROM payments WHERE pid IN (SELECT pid FROM fills);
--- duckdb
SELECT pid, amount FROM payments WHERE pid IN (SELECT pid FROM fills)
=== json-path-defaults rows
SELECT
  JSON_VALUE('{"a": true}', '$.a' RETURNING BOOLEAN) AS a, JSON_VALUE('{"a.b": [0.998,0.996]}', '$.["a.b"][0]' RETURNING DOUBLE) AS b,
  JSON_VALUE('{"contains blank": "right"}', 'strict $.[''contains blank'']' NULL ON EMPTY DEFAULT 'wrong' ON ERROR) AS c,
  JSON_VALUE('{"a": 1}', 'lax $.x' DEFAULT 'none' ON EMPTY) AS d, JSON_EXISTS('{"a": [{"b": 1}]}', '$.a[0].b') AS e,
  JSON_QUERY('{"a": {"b": 1}}', '$.a') AS f, JSON_QUERY('[1, 2]', '$') AS g, JSON_STRING('x"y') AS h,
  JSON_ARRAY('1', '2') AS i, JSON_OBJECT(KEY 'K1' VALUE 'V1', KEY 'K2' VALUE JSON_ARRAY(1)) AS j
FROM payments WHERE pid = 1;
--- duckdb
VALUES (true, 0.998, 'right', 'none', true, '{"b":1}', '[1,2]', '"x\"y"', '["1","2"]', '{"K1":"V1","K2":[1]}')
=== json-aggregates table
SELECT account, JSON_OBJECTAGG(KEY status VALUE pid) AS o, JSON_ARRAYAGG(pid) AS a FROM payments WHERE account = 'a3' GROUP BY account;
--- duckdb
VALUES ('a3', '{"ok":4,"pending":8}', '[4,8]')
=== string-builtins-one rows
SELECT SPLIT_INDEX('a,b,c', ',', 1) AS a, REGEXP('banana', 'n.n') AS b, REVERSE('abc') AS c, TRIM(LEADING 'x' FROM 'xxay') AS d, TRIM(BOTH FROM '  q ') AS e,
  CHAR_LENGTH('abc') AS f, SUBSTRING('hello' FROM 2 FOR 3) AS g, REPLACE('hello world', 'world', 'flink') AS h, LOCATE('bar', 'foobarbar', 5) AS i, INSTR('foobar', 'bar') AS j,
  RPAD('hi', 4, '??') AS k, LEFT('abc', 2) AS l, ASCII('abc') AS m, CHR(97) AS n, MD5('abc') AS o, SHA256('abc') AS p, REPEAT('ab', 3) AS q, PARSE_URL('http://facebook.com/path/p1.php?query=1', 'HOST') AS r
FROM payments WHERE pid = 1;
--- duckdb
VALUES ('b', true, 'cba', 'ay', 'q', 3, 'ell', 'hello flink', 7, 4, 'hi??', 'ab', 97, 'a', '900150983cd24fb0d6963f7d28e17f72', 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad', 'ababab', 'facebook.com')
=== string-builtins-two rows
SELECT PARSE_URL('http://facebook.com/path/p1.php?query=1', 'QUERY', 'query') AS a, STR_TO_MAP('k1=v1,k2=v2')['k2'] AS b, ENDSWITH('flink', 'nk') AS c, STARTSWITH('flink', 'fl') AS d,
  TRANSLATE('abcd', 'ac', 'xy') AS e, BTRIM('  trim ') AS f, ELT(2, 'a', 'b') AS g, REGEXP_COUNT('banana', 'an') AS h, REGEXP_SUBSTR('steak frites', 'fr[a-z]+') AS i, REGEXP_INSTR('banana', 'na') AS j,
  REGEXP_EXTRACT_ALL('a1b2', '[a-z]([0-9])', 1) AS k, FROM_BASE64('aGVsbG8=') AS l, LTRIM('  x') || RTRIM('y  ') AS m, UPPER('a') AS n, IS_DIGIT('12') AS o, IS_ALPHA('a1') AS p, IS_DECIMAL('1.5') AS q, SPLIT('a;b', ';') AS s, PRINTF('%s-%d', 'a', 7) AS t
FROM payments WHERE pid = 1;
--- duckdb
VALUES ('1', 'v2', true, true, 'xbyd', 'trim', 'b', 2, 'frites', 3, ['1', '2'], 'hello', 'xy', 'A', true, false, true, ['a', 'b'], 'a-7')
=== temporal-builtins rows
SELECT YEAR(ptime) AS a, QUARTER(ptime) AS b, MONTH(ptime) AS c, WEEK(ptime) AS d, DAYOFYEAR(ptime) AS e, DAYOFMONTH(ptime) AS f, DAYOFWEEK(ptime) AS g, HOUR(ptime) AS h, MINUTE(ptime) AS i, SECOND(ptime) AS j,
  FLOOR(ptime TO HOUR) AS k, UNIX_TIMESTAMP('1970-01-01 00:01:00') AS l, FROM_UNIXTIME(60, 'yyyy-MM-dd HH:mm') AS m, TO_DATE('2026-01-05') AS n, TO_TIMESTAMP('2026-01-05 10:11', 'yyyy-MM-dd HH:mm') AS o,
  ptime + INTERVAL '1' MONTH AS p
FROM payments WHERE pid = 3;
--- duckdb
VALUES (2026, 1, 3, 9, 60, 1, 1, 8, 1, 10, TIMESTAMP '2026-03-01 08:00:00', 60, '1970-01-01 00:01', DATE '2026-01-05', TIMESTAMP '2026-01-05 10:11:00', TIMESTAMP '2026-04-01 08:01:10')
=== date-arithmetic rows
SELECT DATE '2026-01-31' + INTERVAL '1' MONTH AS a, TIMESTAMPDIFF(DAY, TIMESTAMP '2026-01-01 00:00:00', TIMESTAMP '2026-03-01 00:00:00') AS b, CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles') AS c,
  TO_TIMESTAMP_LTZ(1000, 3) AS d, EXTRACT(DOY FROM DATE '2026-02-01') AS e, CAST('2026-05-06 07:08:09.123' AS TIMESTAMP(3)) AS f, DATE_FORMAT('2026-05-06 07:08:09', 'dd/MM/yy') AS g
FROM payments WHERE pid = 1;
--- duckdb
VALUES (DATE '2026-02-28', 59, '1969-12-31 16:00:00', TIMESTAMP '1970-01-01 00:00:01', 32, TIMESTAMP '2026-05-06 07:08:09.123', '06/05/26')
=== conditionals rows
SELECT CASE status WHEN 'ok' THEN 1 WHEN 'failed' THEN 0 END AS a, IF(amount > 50, 'hi', 'lo') AS b, COALESCE(currency, 'n/a') AS c, IFNULL(currency, 'x') AS d, NULLIF(pid, 4) AS e,
  TRY_CAST(account AS INT) AS f, CAST(amount AS INT) AS g, amount BETWEEN SYMMETRIC 20 AND 5 AS h, currency IS DISTINCT FROM 'EUR' AS i, status SIMILAR TO '(ok|failed)' AS j, (amount > 5) IS TRUE AS k
FROM payments WHERE pid IN (4, 5);
--- duckdb
VALUES (1, 'lo', 'n/a', 'x', NULL, NULL, 5, true, true, true, true), (0, 'hi', 'USD', 'USD', 5, NULL, 75, false, true, true, true)
=== array-builtins-one rows
SELECT ARRAY_APPEND(ARRAY[1, 2], 3) AS a, ARRAY_SORT(ARRAY[3, CAST(NULL AS INT), 1]) AS b, ARRAY_EXCEPT(ARRAY[1, 2, 2, 3], ARRAY[3]) AS c, ARRAY_SLICE(ARRAY['a', 'b', 'c', 'd'], 2, 3) AS d, ARRAY_MAX(ARRAY[1, 5, 2]) AS e,
  ARRAY_JOIN(ARRAY['a', 'b'], '-') AS f, ARRAY_CONCAT(ARRAY[1], ARRAY[2, 3]) AS g, ARRAY_DISTINCT(ARRAY[1, 1, 2]) AS h, ARRAY_POSITION(ARRAY['x', 'y'], 'y') AS i, ARRAY_PREPEND(ARRAY[2], 1) AS j, ARRAY_REMOVE(ARRAY[1, 2, 1], 1) AS k, ARRAY_REVERSE(ARRAY[1, 2]) AS l, ARRAY_UNION(ARRAY[1, 2], ARRAY[2, 3]) AS m, ARRAY_INTERSECT(ARRAY[1, 2], ARRAY[2, 3]) AS n
FROM payments WHERE pid = 1;
--- duckdb
VALUES ([1, 2, 3], [NULL, 1, 3], [1, 2], ['b', 'c'], 5, 'a-b', [1, 2, 3], [1, 2], 2, [1, 2], [2], [2, 1], [1, 2, 3], [2])
=== map-builtins rows
SELECT MAP['a', 1, 'b', 2]['b'] AS a, CARDINALITY(MAP['a', 1]) AS b, MAP_KEYS(MAP['a', 1]) AS c, MAP_VALUES(MAP['a', 1]) AS d, MAP_FROM_ARRAYS(ARRAY['k'], ARRAY[9])['k'] AS e, MAP_UNION(MAP['a', 1], MAP['b', 2])['b'] AS f, ELEMENT(ARRAY[7]) AS g, ARRAY[5, 6][2] AS h, ROW(1, 'x') AS i
FROM payments WHERE pid = 1;
--- duckdb
VALUES (2, 1, ['a'], [1], 9, 2, 7, 6, {'a': 1, 'b': 'x'})
=== math-builtins rows
SELECT MOD(7, 3) AS a, LOG(2, 8) AS b, TRUNCATE(42.345, 2) AS c, ROUND(2.567, 1) AS d, SIGN(-3) AS e, SINH(0) AS f, HEX(255) AS g, BIN(4) AS h, E() AS i, CEIL(1.2) AS j, POWER(2, 3) AS k, 7 / 2 AS l, COT(1.0) AS m, PERCENTILE(amount, 0.5) AS o
FROM payments WHERE pid = 1 GROUP BY pid;
--- duckdb
VALUES (1, 3, 42.34, 2.6, -1, 0, 'FF', '100', exp(1), 2, 8, 3, cot(1.0), 10.5)
=== lag-and-distinct-over rows
SELECT pid, LAG(amount, 1, 0) OVER (PARTITION BY account ORDER BY ptime) AS prev,
  COUNT(DISTINCT currency) OVER (PARTITION BY account ORDER BY ptime ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS seen
FROM payments;
--- duckdb
SELECT pid, lag(amount, 1, 0) OVER (PARTITION BY account ORDER BY ptime), count(DISTINCT currency) OVER (PARTITION BY account ORDER BY ptime ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM payments
=== begin-statement-set sink
CREATE TABLE a_sink (account STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${out}/a_sink', 'format' = 'parquet');
CREATE TABLE b_sink (account STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${out}/b_sink', 'format' = 'parquet');
BEGIN STATEMENT SET;
INSERT INTO a_sink SELECT account, COUNT(*) FROM payments WHERE pid < 0 GROUP BY account, TUMBLE(ptime, INTERVAL '1' DAY);
INSERT INTO b_sink SELECT account, COUNT(*) FROM payments GROUP BY account, TUMBLE(ptime, INTERVAL '1' DAY);
END;
--- duckdb
SELECT 'b_sink', account, count(*) FROM payments GROUP BY account
=== hints-and-settings rows
SET 'execution.runtime-mode' = 'streaming';
SET 'sql-client.execution.result-mode' = 'tableau';
SELECT /*+ STATE_TTL('p' = '1d') */ p.pid, f.fid FROM payments p
JOIN fills f ON p.pid = f.pid AND f.ftime BETWEEN p.ptime - INTERVAL '1' MINUTE AND p.ptime + INTERVAL '3' MINUTE;
--- duckdb
SELECT p.pid, f.fid FROM payments p JOIN fills f ON p.pid = f.pid AND f.ftime BETWEEN p.ptime - INTERVAL 1 MINUTE AND p.ptime + INTERVAL 3 MINUTE
=== unnest-ordinality rows
SELECT `user`, t.tag, t.pos FROM clicks CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, pos);
--- duckdb
SELECT "user", unnest(tags), generate_subscripts(tags, 1) FROM clicks
=== ctas-insert sink
CREATE TABLE rich WITH ('connector' = 'filesystem', 'path' = '${out}/rich', 'format' = 'parquet') AS SELECT pid, amount FROM payments WHERE amount > 50;
--- duckdb
SELECT 'rich', pid, amount FROM payments WHERE amount > 50
=== window-top-n-rows rows
SELECT window_start, pid, amount, rownum FROM (
  SELECT pid, amount, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY amount DESC) AS rownum
  FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ptime), INTERVAL '10' MINUTES))) WHERE rownum <= 3;
--- duckdb
SELECT time_bucket(INTERVAL 10 MINUTE, ptime) w, pid, amount, row_number() OVER (PARTITION BY w ORDER BY amount DESC) r FROM payments QUALIFY r <= 3
=== window-exists-join rows
SELECT * FROM (
  SELECT pid, account, window_start, window_end FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ptime), INTERVAL '5' MINUTES))
) L WHERE NOT EXISTS (
  SELECT * FROM (SELECT * FROM TABLE(TUMBLE(TABLE fills, DESCRIPTOR(ftime), INTERVAL '5' MINUTES))) R
  WHERE L.pid = R.pid AND L.window_start = R.window_start AND L.window_end = R.window_end);
--- duckdb
SELECT pid, account, time_bucket(INTERVAL 5 MINUTE, ptime) w, w + INTERVAL 5 MINUTE FROM payments p WHERE NOT EXISTS (SELECT 1 FROM fills f WHERE f.pid = p.pid AND time_bucket(INTERVAL 5 MINUTE, ftime) = time_bucket(INTERVAL 5 MINUTE, p.ptime))
=== match-within-time rows
SELECT * FROM Ticker MATCH_RECOGNIZE(
    PARTITION BY symbol ORDER BY rowtime
    MEASURES C.rowtime AS dropTime, A.price - C.price AS dropDiff
    ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
    PATTERN (A B* C) WITHIN INTERVAL '3' SECOND
    DEFINE B AS B.price > A.price - 10, C AS C.price < A.price - 5);
--- duckdb
VALUES ('ACME', TIMESTAMP '2026-03-01 10:00:06', 6), ('ACME', TIMESTAMP '2026-03-01 10:00:10', 6)
