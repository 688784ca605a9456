=== second-risingwave-session-frame
SELECT p.pid, p.account, s.first AS window_start FROM payments p
JOIN (SELECT account, MIN(ptime) AS first, MAX(ptime) AS last FROM payments GROUP BY account, SESSION(INTERVAL '3 minutes')) s
ON p.account = s.account AND p.ptime BETWEEN s.first AND s.last;
=== fourth-flink-conditionals-b
SELECT id, CASE who.name WHEN 'ann' THEN 'A' WHEN 'bob' THEN 'B' ELSE '?' END AS c, COALESCE(who.age, 0) AS co, NULLIF(id, 2) AS nu, IF(id > 1, 'big', 'small') AS i, IFNULL(who.age, -1) AS ifn, GREATEST(id, 2) AS g, TRY_CAST(line AS INT) AS tc, CAST(id AS STRING) || 'x' AS cs, 'INT' AS ty, id IS DISTINCT FROM 2 AS df, who.name SIMILAR TO '(a|b)%' AS si, REGEXP('12', '^[0-9]+$') AS dg, REGEXP('a1', '^[a-z]+$') AS al
FROM events;
=== fourth-risingwave-session-frame-docs
SELECT r.sensor, r.ts, s.first AS window_start, s.last AS window_end FROM readings r
JOIN (SELECT sensor, MIN(ts) AS first, MAX(ts) AS last FROM readings GROUP BY sensor, SESSION(INTERVAL '2 minutes')) s
ON r.sensor = s.sensor AND r.ts BETWEEN s.first AND s.last;
=== fourth-ksqldb-parse-strings
SELECT id, SPLIT(line, ' ')[2] AS verb, REGEXP_EXTRACT('(\d+)-(\d+)', line, 2) AS mon, UCASE(who->name) AS u, LEN(line) AS n, SUBSTRING(line, 1, 4) AS y, REPLACE(line, '/', '.') AS r, REGEXP_REPLACE('Ab1', '[A-Za-z0-9]', '*') AS m, INSTR(line, 'GET') AS i, CONCAT_WS('-', 'a', 'b') AS c, URL_EXTRACT_PARAMETER('http://x.io/p?a=1&b=2', 'b') AS p, STRINGTOTIMESTAMP('2024-01-01', 'yyyy-MM-dd') AS st FROM events WHERE id = 1;
=== fifth-spark-hash-and-encode
SELECT user_id, md5(name) AS m, sha2(name, 256) AS s, hex(user_id + 254) AS h, base64(name) AS b, '255' AS c, bin(5) AS bi, crc32('a') AS cr FROM users WHERE user_id = 1;
=== fifth-materialize-jsonb-build
SELECT jsonb_build_object('d', dev, 't', 1)->>'d' AS d, jsonb_build_array('1', dev)->>1 AS e, (meta->'gps'->>'lat')::float + 1 AS lat FROM devices WHERE dev = 'd1' AND meta IS NOT NULL;
=== sixth-spark-session-variables
SELECT tx_id FROM cards WHERE amount > 300;
=== second-spark-session-dynamic-gap
SELECT account, count(*) AS cnt FROM payments WHERE account = 'a1' GROUP BY account, session_window(ptime, '2 minutes')
UNION ALL SELECT account, count(*) AS cnt FROM payments WHERE account <> 'a1' GROUP BY account, session_window(ptime, '5 minutes');
=== second-spark-math-builtins
SELECT pid, bround(2.5) AS b, pmod(-7, 3) AS p, greatest(pid, 3) AS g, round(-2.5) AS r, ceil(1.2) AS c, cbrt(27.0) AS cb, bin(pid) AS bi,
  conv('ff', 16, 10) AS cv, hypot(3, 4) AS hy, log2(8) AS l2, shiftleft(pid, 2) AS sl, factorial(4) AS fa, unhex('41') = 'A' AS u
FROM payments WHERE pid = 5;
=== fourth-flink-session-rows
SELECT b.item, s.f AS window_start, s.e AS window_end FROM Bid b
JOIN (SELECT supplier_id, window_start AS f, window_end AS e FROM TABLE(SESSION(TABLE Bid PARTITION BY supplier_id, DESCRIPTOR(bidtime), INTERVAL '3' MINUTES)) GROUP BY supplier_id, window_start, window_end) s
ON b.supplier_id = s.supplier_id AND b.bidtime >= s.f AND b.bidtime < s.e;
=== fourth-spark-window-docs-sliding
SELECT a, start, start + INTERVAL '10' MINUTE AS end, count(*) AS cnt FROM
  (SELECT a, explode(array(TIME_BUCKET(INTERVAL '5' MINUTE, b), TIME_BUCKET(INTERVAL '5' MINUTE, b) - INTERVAL '5' MINUTE)) AS start
   FROM (SELECT a, CAST(b AS TIMESTAMP) AS b FROM VALUES ('A1', '2021-01-01 00:00:00'), ('A1', '2021-01-01 00:04:30'), ('A1', '2021-01-01 00:06:00'), ('A2', '2021-01-01 00:01:00') AS tab(a, b)) AS t) AS u
GROUP BY a, start ORDER BY a, start;
=== fourth-spark-ignore-nulls-window
SELECT id, v, v AS lead, v AS lag, MAX(CASE WHEN k = 2 THEN v END) OVER w AS nth_value, FIRST_VALUE(v) IGNORE NULLS OVER w first_value, LAST_VALUE(v) IGNORE NULLS OVER w last_value
FROM (SELECT id, v, COUNT(v) OVER (ORDER BY id) AS k FROM VALUES (0, NULL), (1, 'x'), (2, NULL), (3, 'y'), (4, NULL), (5, 'z'), (6, NULL) AS t(id, v)) AS u
WINDOW w AS (ORDER BY id) ORDER BY id;
=== fourth-risingwave-asof-docs rows
SELECT o.order_id, r.temp FROM (SELECT *, 'a' AS sensor FROM orders) o ASOF LEFT JOIN readings r ON o.sensor = r.sensor AND o.order_time >= r.ts WHERE o.order_id < 5;
=== fourth-spark-string-functions
SELECT concat_ws(' ', 'Spark', 'SQL') AS a, substring_index('www.apache.org', '.', 2) AS b, regexp_extract('100-200', '(\\d+)-(\\d+)', 1) AS c, regexp_replace('100-200', '(\\d+)', 'num') AS d, split('oneAtwoBthreeC', '[ABC]') AS e, translate('AaBbCc', 'abc', '123') AS f, initcap('sPark sql') AS g, levenshtein('kitten', 'sitting') AS h, soundex('Miller') AS i, lpad('hi', 5, '??') AS j, rpad('hi', 1) AS k, instr('SparkSQL', 'SQL') AS l, format_number(12332.123456, 4) AS m, format_string('Hello World %d %s', 100, 'days') AS n, left('Spark SQL', 3) AS o, overlay('Spark SQL' PLACING '_' FROM 6) AS p, split_part('11.12.13', '.', 3) AS q, contains('Spark SQL', 'Spark') AS r, startswith('Spark SQL', 'Spark') AS s, btrim('    SparkSQL   ') AS t, find_in_set('ab', 'abc,b,ab,c,def') AS u, regexp_count('Steven Jones and Stephen Smith', 'Ste(v|ph)en') AS v, base64('Spark SQL') AS w, unbase64('U3BhcmsgU1FM') AS x, char(65) AS y, elt(1, 'scala', 'java') AS z, sentences('Hi there! Good morning.') AS aa
FROM events WHERE id = 1;
=== fourth-spark-hash-math
SELECT md5('Spark') AS a, sha2('Spark', 256) AS b, sha1('Spark') AS c, crc32('Spark') AS d, hex(17) AS e, conv('100', 2, 10) AS f, conv('-10', 16, -10) AS g, decode(unhex('537061726B2053514C'), 'UTF-8') AS h, bin(13) AS i, bround(2.5) * 10 AS j, ceil(3.1411 * 1000) / 1000 AS k, e() AS l, factorial(5) AS m, hypot(3, 4) AS n, log(10, 100) AS o, pmod(10, 3) AS p, positive(1) AS q, rint(12.3456) AS r, round(2.5, 0) AS s, shiftright(4, 1) AS t, signum(-4) AS u, try_divide(3, 0) AS v, width_bucket(5.3, 0.2, 10.6, 5) AS w, greatest(10, 9, 2) AS x, least(10, 9, null) AS y, 7 div 2 AS z, 7 div 2 AS z2
FROM events WHERE id = 1;
=== fourth-ksqldb-shipped-orders
SELECT o.order_id AS order_id, FORMAT_TIMESTAMP(o.order_time, 'yyyy-MM-dd HH:mm:ss') AS order_ts, s.id AS shipment
  FROM orders o INNER JOIN shipments s WITHIN 7 DAYS GRACE PERIOD 24 HOURS ON o.order_id = s.order_id EMIT CHANGES;
=== sixth-flink-alter-watermark
CREATE TABLE raw (tx_id BIGINT, tx_time TIMESTAMP(3), WATERMARK FOR tx_time AS tx_time - INTERVAL '1' MINUTE) WITH ('connector' = 'filesystem', 'path' = '${data}/cards.csv', 'format' = 'csv');
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE raw, DESCRIPTOR(tx_time), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;
=== fifth-postgres-date-arithmetic
SELECT user_id, joined - DATE '2024-01-01' AS days, joined + 7 AS week, date_trunc('quarter', joined) AS q, extract(epoch FROM joined) AS e, joined + INTERVAL '6 months' < TIMESTAMP '2025-03-31' AS old, CONCAT(extract(ISOYEAR FROM joined), '-', LPAD(extract(WEEK FROM joined)::varchar, 2, '0')) AS iso, make_date(2024, 2, 29) AS md FROM users;
=== fifth-snowflake-flatten-parse-json
SELECT dev, CAST(JSON_VALUE(meta, '$.gps.lat') AS DOUBLE) AS lat, JSON_VALUE(meta, '$.fw') AS fw FROM devices WHERE meta IS NOT NULL;
