CREATE STREAM cards (tx_id INT KEY, card VARCHAR, merchant VARCHAR, amount DOUBLE, status VARCHAR, lat DOUBLE, lon DOUBLE, tx_time TIMESTAMP)
  WITH (PATH='${data}/cards.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='tx_time', PARTITIONS=1);
CREATE STREAM sales (sale_id INT KEY, sku VARCHAR, store VARCHAR, units INT, sold_at TIMESTAMP)
  WITH (PATH='${data}/sales.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='sold_at');
CREATE TABLE prices (sku VARCHAR PRIMARY KEY, unit_price DOUBLE, since TIMESTAMP)
  WITH (PATH='${data}/prices.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='since');
CREATE STREAM probes (probe VARCHAR KEY, at TIMESTAMP, vals ARRAY<DOUBLE>, labels ARRAY<VARCHAR>, pos STRUCT<room VARCHAR, xy STRUCT<x INT, y INT>>, body VARCHAR)
  WITH (PATH='${data}/probes.jsonl', VALUE_FORMAT='JSON', TIMESTAMP='at');
=== geo-distance rows
SELECT tx_id, ROUND(GEO_DISTANCE(lat, lon, 52.52, 13.405, 'km')) AS km FROM cards WHERE card = 'c1' EMIT CHANGES;
--- duckdb
SELECT tx_id, round(2 * 6371 * asin(sqrt(power(sin(radians(52.52 - lat) / 2), 2) + cos(radians(lat)) * cos(radians(52.52)) * power(sin(radians(13.405 - lon) / 2), 2)))) FROM cards WHERE card = 'c1'
=== as-value table
CREATE TABLE per_card AS SELECT card, AS_VALUE(card) AS card_copy, COUNT(*) AS n FROM cards GROUP BY card EMIT CHANGES;
SELECT card_copy, n FROM per_card;
--- duckdb
SELECT card, count(*) FROM cards GROUP BY card
=== two-step-fraud rows
CREATE STREAM declined WITH (KAFKA_TOPIC='declined', VALUE_FORMAT='JSON') AS SELECT * FROM cards WHERE status = 'declined' EMIT CHANGES;
SELECT card, WINDOWSTART AS ws, WINDOWEND AS we, COUNT(*) AS n FROM declined WINDOW TUMBLING (SIZE 5 MINUTES, GRACE PERIOD 0 SECONDS) GROUP BY card EMIT FINAL;
--- duckdb
VALUES ('c1', 1748772000000, 1748772300000, 1), ('c1', 1748772300000, 1748772600000, 1)
=== create-type rows
CREATE TYPE point AS STRUCT<x INT, y INT>;
CREATE STREAM probes2 (probe VARCHAR KEY, at TIMESTAMP, pos STRUCT<room VARCHAR, xy point>) WITH (PATH='${data}/probes.jsonl', VALUE_FORMAT='JSON', TIMESTAMP='at');
SELECT probe, pos->xy->y AS y, pos->room AS room FROM probes2 EMIT CHANGES;
--- duckdb
SELECT probe, pos.xy.y, pos.room FROM probes
=== lambda-reduce-map rows
SELECT probe, TRANSFORM(vals, x => x * 2) AS t, REDUCE(vals, CAST(0 AS DOUBLE), (s, x) => s + x) AS r, FILTER(labels, l => l LIKE 'v%') AS f, TRANSFORM(MAP('a' := 1, 'b' := 2), (k, v) => UCASE(k), (k, v) => v + 1)['A'] AS m FROM probes WHERE ARRAY_LENGTH(vals) > 1 EMIT CHANGES;
--- duckdb
VALUES ('p1', [3, 5, 8], 8, ['v2'], 2), ('p1', [4, 4], 4, [], 2)
=== correlation-and-sums table
SELECT card, SUM(amount) AS s, CORRELATION(amount, tx_id) IS NOT NULL AS c, COLLECT_SET(merchant) AS ms, MAX(amount) - MIN(amount) AS r, ATTR(card) AS a, COUNT(amount) AS n FROM cards WHERE card = 'c2' GROUP BY card EMIT CHANGES;
--- duckdb
VALUES ('c2', 415.25, true, ['Book Nook', 'Gas Stop', 'Jewels & Co'], 330, 'c2', 3)
=== split-to-map-entries rows
SELECT tx_id, SPLIT_TO_MAP('a:1;b:2', ';', ':')['b'] AS b, MAP_KEYS(MAP('x' := 1)) AS k, ENTRIES(MAP('x' := 1), true) AS e, AS_MAP(ARRAY['k'], ARRAY[tx_id])['k'] AS m, MAP_UNION(MAP('a' := 1), MAP('b' := 2))['b'] AS u FROM cards WHERE tx_id = 1 EMIT CHANGES;
--- duckdb
SELECT 1, '2', ['x'], [{'k': 'x', 'v': 1}], 1, 2
=== regexp-and-mask rows
SELECT tx_id, REGEXP_REPLACE(merchant, '[aeiou]', '_') AS r, REGEXP_SPLIT_TO_ARRAY(merchant, ' ') AS sp, REGEXP_EXTRACT_ALL('[A-Z]', merchant) AS al, MASK('Ab-12') AS m, MASK_LEFT('abcd', 2) AS ml, MASK_KEEP_RIGHT('abcd', 1) AS mk, CHR(75) AS c, FIELD('b', 'a', 'b') AS fi, ELT(1, 'p', 'q') AS el FROM cards WHERE tx_id = 1 EMIT CHANGES;
--- duckdb
VALUES (1, 'C_f_ Un_', ['Cafe', 'Uno'], ['C', 'U'], 'Xx-nn', 'xxcd', 'xxxd', 'K', 2, 'p')
=== url-kit rows
SELECT URL_EXTRACT_HOST('https://shop.io:8080/a?x=1#f') AS h, URL_EXTRACT_PARAMETER('https://shop.io/a?x=1&y=2', 'y') AS y, URL_EXTRACT_PATH('https://shop.io/a/b?x=1') AS p, URL_EXTRACT_PORT('https://shop.io:8080/a') AS po, URL_EXTRACT_PROTOCOL('https://shop.io') AS pr, URL_ENCODE_PARAM('a b') AS e, URL_DECODE_PARAM('a%20b') AS d, URL_EXTRACT_FRAGMENT('https://shop.io/#f') AS f, URL_EXTRACT_QUERY('https://shop.io/a?x=1') AS q, tx_id FROM cards WHERE tx_id = 1 EMIT CHANGES;
--- duckdb
VALUES ('shop.io', '2', '/a/b', 8080, 'https', 'a+b', 'a b', 'f', 'x=1', 1)
=== date-kit rows
SELECT tx_id, FORMAT_DATE(PARSE_DATE('2025-06-01', 'yyyy-MM-dd'), 'dd/MM/yyyy') AS fd, PARSE_TIMESTAMP('2025-06-01 10:00', 'yyyy-MM-dd HH:mm') AS pt, CONVERT_TZ(tx_time, 'UTC', 'Asia/Tokyo') AS z, FROM_UNIXTIME(1748772000000) AS fu, DATESUB(DAYS, 1, PARSE_DATE('2025-06-01', 'yyyy-MM-dd')) AS ds, FROM_DAYS(20240) AS fdys, TIMESTAMPSUB(MINUTES, 5, tx_time) AS ts, UNIX_DATE(PARSE_DATE('1970-01-03', 'yyyy-MM-dd')) AS ud FROM cards WHERE tx_id = 1 EMIT CHANGES;
--- duckdb
VALUES (1, '01/06/2025', '2025-06-01T10:00:00', '2025-06-01T19:00:00', '2025-06-01T10:00:00', '2025-05-31', '2025-06-01', '2025-06-01T09:55:00', 2)
=== math-kit rows
SELECT tx_id, ABS(-3) AS a, CEIL(amount) AS c, FLOOR(amount) AS f, ROUND(amount, 1) AS r, SIGN(amount) AS s, SQRT(16) AS q, LN(1) AS l, EXP(0) AS e, GREATEST(1, tx_id, 2) AS g, LEAST(5, tx_id) AS le, CBRT(27) AS cb, TRUNC(amount, 1) AS t, POWER(2, 3) AS p, LOG(10, 100) AS lg, PI() > 3 AS pi, tx_id % 4 AS m FROM cards WHERE tx_id IN (1, 6) EMIT CHANGES;
--- duckdb
VALUES (1, 3, 5, 4, 4.5, 1, 4, 0, 1, 2, 1, 3, 4.5, 8, 2, true, 1), (6, 3, 46, 45, 45.3, 1, 4, 0, 1, 6, 5, 3, 45.2, 8, 2, true, 2)
=== stream-table-revenue rows
CREATE STREAM revenue AS SELECT s.sale_id, s.sku AS sku, s.units * p.unit_price AS eur FROM sales s INNER JOIN prices p ON s.sku = p.sku EMIT CHANGES;
SELECT sale_id, eur FROM revenue WHERE eur > 20 EMIT CHANGES;
--- duckdb
SELECT sale_id, units * unit_price AS e FROM sales s ASOF JOIN prices p ON s.sku = p.sku AND sold_at >= since WHERE e > 20
=== stream-stream-both rows
SELECT a.tx_id AS bad, b.tx_id AS good FROM cards a JOIN cards b WITHIN (0 SECONDS, 3 MINUTES) GRACE PERIOD 1 MINUTE ON a.card = b.card WHERE a.status = 'declined' AND b.status = 'ok' EMIT CHANGES;
--- duckdb
VALUES (3, 4)
=== pull-windowed rows
CREATE TABLE per5 AS SELECT merchant, COUNT(*) AS n FROM cards WINDOW TUMBLING (SIZE 5 MINUTES) GROUP BY merchant EMIT FINAL;
SELECT merchant, n FROM per5 WHERE merchant = 'Cafe Uno' AND WINDOWSTART >= '2025-06-01T10:00:00' AND WINDOWSTART < '2025-06-01T10:10:00';
--- duckdb
VALUES ('Cafe Uno', 2)
=== drop-describe-set rows
SET 'auto.offset.reset' = 'earliest';
SET 'ksql.query.pull.table.scan.enabled' = 'true';
DROP STREAM IF EXISTS nope DELETE TOPIC;
LIST STREAMS;
SELECT tx_id, card FROM cards WHERE amount > 100 EMIT CHANGES LIMIT 5;
--- duckdb
VALUES (7, 'c1'), (9, 'c2')
=== insert-values-stream rows
CREATE STREAM riders (rider VARCHAR KEY, speed DOUBLE, seen TIMESTAMP) WITH (KAFKA_TOPIC='riders', VALUE_FORMAT='JSON', TIMESTAMP='seen', PARTITIONS=1);
INSERT INTO riders (rider, speed, seen) VALUES ('r1', 7.5, '2025-06-01T10:00:00');
INSERT INTO riders (rider, speed, seen) VALUES ('r2', 9.0, '2025-06-01T10:00:05');
SELECT rider, speed * 2 AS twice FROM riders EMIT CHANGES;
--- duckdb
VALUES ('r1', 15), ('r2', 18)
=== case-cast-struct rows
SELECT tx_id, CASE WHEN amount IS NULL THEN 'none' WHEN amount < 10 THEN 'low' ELSE 'high' END AS band, CAST(amount AS VARCHAR) AS s, STRUCT(a := card, b := tx_id)->b AS sb, IFNULL(amount, 0.0) AS n, NULLIF(status, 'ok') AS st, COALESCE(amount, -1) AS co, status != 'ok' AS bad, merchant LIKE '%Uno' AS u FROM cards WHERE tx_id IN (1, 5) EMIT CHANGES;
--- duckdb
VALUES (1, 'low', '4.5', 1, 4.5, NULL, 4.5, false, true), (5, 'none', NULL, 5, 0, 'pending', -1, true, false)
=== json-kit rows
SELECT probe, EXTRACTJSONFIELD(body, '$.net.ip') AS ip, JSON_RECORDS(body)['n'] AS n, TO_JSON_STRING(labels) AS tj, JSON_ITEMS('[1, 2]') AS ji, JSON_ARRAY_CONTAINS('[1, 2]', 2) AS jc FROM probes WHERE probe = 'p1' AND body IS NOT NULL EMIT CHANGES;
--- duckdb
VALUES ('p1', '10.0.0.1', '3', '["hall","v2"]', ['1', '2'], true), ('p1', NULL, '1', '["hall"]', ['1', '2'], true)
