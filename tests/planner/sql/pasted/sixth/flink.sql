CREATE TABLE cards (
  tx_id BIGINT, card STRING, merchant STRING, amount DECIMAL(10, 2), status STRING, lat DOUBLE, lon DOUBLE, tx_time TIMESTAMP(3),
  WATERMARK FOR tx_time AS tx_time - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/cards.csv', 'format' = 'csv');
CREATE TABLE sales (
  sale_id BIGINT, sku STRING, store STRING, units INT, sold_at TIMESTAMP(3), WATERMARK FOR sold_at AS sold_at
) WITH ('connector' = 'filesystem', 'path' = '${data}/sales.csv', 'format' = 'csv');
CREATE TABLE products (sku STRING, title STRING, price DECIMAL(10, 2), cat STRING, added DATE)
WITH ('connector' = 'filesystem', 'path' = '${data}/products.csv', 'format' = 'csv');
CREATE TABLE prices (
  sku STRING, unit_price DECIMAL(10, 2), since TIMESTAMP(3), WATERMARK FOR since AS since, PRIMARY KEY (sku) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'path' = '${data}/prices.csv', 'format' = 'csv');
CREATE TABLE probes (
  probe STRING, `at` TIMESTAMP(3), vals ARRAY<DOUBLE>, labels ARRAY<STRING>, pos ROW<room STRING, xy ROW<x INT, y INT>>, body STRING,
  WATERMARK FOR `at` AS `at`
) WITH ('connector' = 'filesystem', 'path' = '${data}/probes.jsonl', 'format' = 'json');
=== json-objectagg table
SELECT card, JSON_OBJECTAGG(KEY merchant VALUE status) AS j FROM cards WHERE card = 'c3' GROUP BY card;
--- duckdb
VALUES ('c3', '{"Book Nook":"pending","Cafe Uno":"ok"}')
=== json-string-and-quote rows
SELECT tx_id, JSON_STRING(merchant) AS s, JSON_STRING(tx_id) AS n, JSON_QUOTE(card) AS q, JSON_UNQUOTE('"abc"') AS u FROM cards WHERE tx_id <= 2;
--- duckdb
VALUES (1, '"Cafe Uno"', '1', '"c1"', 'abc'), (2, '"Book Nook"', '2', '"c2"', 'abc')
=== str-to-map-and-maps rows
SELECT tx_id, STR_TO_MAP('a=1,b=2')['b'] AS b, MAP_FROM_ARRAYS(ARRAY['k', 'l'], ARRAY[tx_id, 7])['k'] AS k, CARDINALITY(MAP_KEYS(MAP['x', 1, 'y', 2])) AS n, MAP_UNION(MAP['x', 1], MAP['z', 3])['z'] AS z FROM cards WHERE tx_id <= 2;
--- duckdb
VALUES (1, '2', 1, 2, 3), (2, '2', 2, 2, 3)
=== url-functions rows
SELECT PARSE_URL('https://shop.io:8080/a/b?x=1&y=2#top', 'HOST') AS h, PARSE_URL('https://shop.io:8080/a/b?x=1&y=2#top', 'QUERY', 'y') AS y, PARSE_URL('https://shop.io/a/b?x=1', 'PATH') AS p, URL_ENCODE('a b&c') AS e, URL_DECODE('a+b%26c') AS d;
--- duckdb
VALUES ('shop.io', '2', '/a/b', 'a+b%26c', 'a b&c')
=== regexp-family rows
SELECT tx_id, REGEXP_COUNT(merchant, 'o') AS c, REGEXP_EXTRACT_ALL(merchant, '([A-Z])') AS a, REGEXP_INSTR(merchant, 'o') AS i, REGEXP_SUBSTR(merchant, '[a-z]+') AS s, REGEXP(merchant, '^C') AS m FROM cards WHERE tx_id IN (1, 2);
--- duckdb
VALUES (1, 1, ['C', 'U'], 8, 'afe', true), (2, 4, ['B', 'N'], 2, 'ook', false)
=== binary-and-base rows
SELECT TO_BASE64('hello') AS b, FROM_BASE64('aGVsbG8=') AS f, HEX('ab') AS h, HEX(255) AS n, BIN(5) AS bi, SHA256('a') AS s;
--- duckdb
SELECT 'aGVsbG8=', 'hello', '6162', 'FF', '101', sha256('a')
=== elt-and-string-more rows
SELECT tx_id, ELT(2, 'a', card, 'c') AS e, BTRIM('  x ') AS b, STARTSWITH(merchant, 'Ca') AS sw, ENDSWITH(merchant, 'k') AS ew, LOCATE('o', merchant) AS lo, INSTR(merchant, 'o') AS ins, ASCII(merchant) AS a, CHR(65) AS ch, TRANSLATE(card, 'c', 'k') AS tr, LEFT(merchant, 3) AS l, RIGHT(merchant, 3) AS r FROM cards WHERE tx_id <= 2;
--- duckdb
VALUES (1, 'c1', 'x', true, false, 8, 8, 67, 'A', 'k1', 'Caf', 'Uno'), (2, 'c2', 'x', false, true, 2, 2, 66, 'A', 'k2', 'Boo', 'ook')
=== zone-and-epoch rows
SELECT tx_id, CONVERT_TZ('2025-06-01 10:00:00', 'UTC', 'Europe/Berlin') AS c, TO_TIMESTAMP_LTZ(1748772000, 0) AS l, FROM_UNIXTIME(1748772000) AS f, TO_DATE('2025-06-01') AS d, DAYOFYEAR(DATE '2025-06-01') AS dy, DAYOFWEEK(DATE '2025-06-01') AS dw, EXTRACT(EPOCH FROM tx_time) AS e FROM cards WHERE tx_id = 1;
--- duckdb
VALUES (1, '2025-06-01 12:00:00', '2025-06-01T10:00:00', '2025-06-01 10:00:00', '2025-06-01', 152, 1, 1748772000)
=== percentile-and-bits table
SELECT card, PERCENTILE(amount, 0.5) AS med, BIT_OR(tx_id) AS bo, BIT_AND(tx_id) AS ba, STDDEV_POP(tx_id) AS sd, COUNT(DISTINCT merchant) AS m FROM cards GROUP BY card;
--- duckdb
SELECT card, quantile_cont(amount, 0.5), bit_or(tx_id), bit_and(tx_id), stddev_pop(tx_id), count(DISTINCT merchant) FROM cards GROUP BY card
=== array-agg-distinct table
SELECT card, ARRAY_AGG(DISTINCT merchant) AS m, ARRAY_AGG(amount) AS a FROM cards WHERE card = 'c1' GROUP BY card;
--- duckdb
VALUES ('c1', ['Cafe Uno', 'Gas Stop', 'Jewels & Co', 'Book Nook'], [4.5, 5, 60, 900, 12])
=== collect-multiset table
SELECT card, COLLECT(merchant) AS m FROM cards WHERE card = 'c1' GROUP BY card;
--- duckdb
VALUES ('c1', ['(''Cafe Uno'', 2)', '(''Gas Stop'', 1)', '(''Jewels & Co'', 1)', '(''Book Nook'', 1)'])
=== declined-then-big rows
SELECT * FROM cards MATCH_RECOGNIZE (
  PARTITION BY card ORDER BY tx_time
  MEASURES A.tx_id AS first_id, LAST(B.tx_id) AS last_id, SUM(B.amount) AS total, MATCH_ROWTIME() AS mt
  ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
  PATTERN (A B+) WITHIN INTERVAL '10' MINUTE
  DEFINE A AS A.status = 'declined', B AS B.amount > A.amount
) AS T;
--- duckdb
VALUES ('c1', 3, 7, 960, '2025-06-01T10:08:20')
=== windows-in-days-offset rows
SELECT window_start, SUM(units) AS u FROM TABLE(TUMBLE(TABLE sales, DESCRIPTOR(sold_at), INTERVAL '1' DAY, INTERVAL '8' HOUR)) GROUP BY window_start, window_end;
--- duckdb
SELECT time_bucket(INTERVAL 1 DAY, sold_at, TIMESTAMP '2025-01-01 08:00:00') w, sum(units) FROM sales GROUP BY w
=== revenue-by-version rows
SELECT s.sale_id, s.units * p.unit_price AS revenue FROM sales AS s JOIN prices FOR SYSTEM_TIME AS OF s.sold_at AS p ON s.sku = p.sku;
--- duckdb
SELECT sale_id, units * unit_price FROM sales s ASOF JOIN prices p ON s.sku = p.sku AND sold_at >= since
=== left-interval-follow-up rows
SELECT a.tx_id, b.tx_id AS nxt FROM cards a LEFT JOIN cards b ON a.card = b.card AND b.status = 'ok' AND b.tx_time BETWEEN a.tx_time + INTERVAL '1' SECOND AND a.tx_time + INTERVAL '5' MINUTE WHERE a.status = 'declined';
--- duckdb
VALUES (3, 4), (7, NULL)
=== hop-of-hop-rollup rows
WITH fine AS (
  SELECT window_time AS rt, card, SUM(amount) AS s FROM TABLE(TUMBLE(TABLE cards, DESCRIPTOR(tx_time), INTERVAL '5' MINUTE)) GROUP BY card, window_start, window_end, window_time
)
SELECT window_start, window_end, SUM(s) AS total, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE fine, DESCRIPTOR(rt), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;
--- duckdb
SELECT time_bucket(INTERVAL 10 MINUTE, f) w, w + INTERVAL 10 MINUTE, sum(s), count(*) FROM (SELECT time_bucket(INTERVAL 5 MINUTE, tx_time) f, card, sum(amount) s FROM cards GROUP BY ALL) GROUP BY w
=== over-count-window rows
SELECT tx_id, COUNT(*) OVER w AS n, SUM(amount) OVER w AS s FROM cards WHERE status <> 'pending'
WINDOW w AS (PARTITION BY card ORDER BY tx_time RANGE BETWEEN INTERVAL '5' MINUTE PRECEDING AND CURRENT ROW);
--- duckdb
SELECT tx_id, count(*) OVER w, sum(amount) OVER w FROM cards WHERE status <> 'pending' WINDOW w AS (PARTITION BY card ORDER BY tx_time RANGE BETWEEN INTERVAL 5 MINUTE PRECEDING AND CURRENT ROW)
=== materialized-table table
CREATE MATERIALIZED TABLE per_store
PARTITIONED BY (store)
FRESHNESS = INTERVAL '30' SECOND
AS SELECT store, SUM(units) AS units FROM sales GROUP BY store;
SELECT * FROM per_store;
--- duckdb
SELECT store, sum(units) FROM sales GROUP BY store
=== catalog-and-drops rows
CREATE CATALOG mine WITH ('type' = 'generic_in_memory');
CREATE DATABASE IF NOT EXISTS shop;
USE shop;
DROP TABLE IF EXISTS nothing_here;
SET 'execution.runtime-mode' = 'streaming';
SET 'parallelism.default' = '2';
SELECT tx_id FROM cards WHERE amount > 100;
--- duckdb
SELECT tx_id FROM cards WHERE amount > 100
=== alter-watermark rows
CREATE TABLE raw_cards (tx_id BIGINT, tx_time TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = '${data}/cards.csv', 'format' = 'csv');
ALTER TABLE raw_cards ADD WATERMARK FOR tx_time AS tx_time - INTERVAL '1' MINUTE;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE raw_cards, DESCRIPTOR(tx_time), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;
--- duckdb
SELECT time_bucket(INTERVAL 10 MINUTE, tx_time) w, count(*) FROM cards GROUP BY w
=== values-join-case rows
SELECT c.tx_id, v.label FROM cards c JOIN (VALUES ('ok', 'fine'), ('declined', 'bad')) AS v (status, label) ON c.status = v.status WHERE c.tx_id < 5;
--- duckdb
VALUES (1, 'fine'), (2, 'fine'), (3, 'bad'), (4, 'fine')
=== nested-row-and-typeof rows
SELECT probe, pos.room AS room, pos.xy.x + pos.xy.y AS s, CARDINALITY(vals) AS n, vals[1] AS f, ELEMENT(ARRAY[probe]) AS el FROM probes WHERE pos.xy IS NOT NULL;
--- duckdb
VALUES ('p1', 'hall', 3, 3, 1.5, 'p1'), ('p2', 'attic', 9, 1, 7, 'p2'), ('p1', 'hall', 4, 2, 2, 'p1')
=== is-true-and-quantified rows
SELECT tx_id, (amount > 10) IS NOT TRUE AS small, status NOT IN ('ok', 'declined') AS odd, amount NOT BETWEEN 4 AND 50 AS far, merchant LIKE '%!_%' ESCAPE '!' AS us, amount IS DISTINCT FROM 4.50 AS df FROM cards WHERE tx_id <= 5;
--- duckdb
SELECT tx_id, coalesce(amount <= 10, true), status = 'pending', amount NOT BETWEEN 4 AND 50, false, amount IS DISTINCT FROM 4.5 FROM cards WHERE tx_id <= 5
=== decimal-arithmetic rows
SELECT tx_id, amount * 3 AS t, amount / 3 AS d, MOD(CAST(tx_id AS INT), 3) AS m, ROUND(amount, 1) AS r, TRUNCATE(amount, 1) AS tr, FLOOR(amount) AS fl, SIGN(amount - 10) AS sg, POWER(2, 10) AS p, CAST(amount AS INT) AS i, CAST(amount AS STRING) AS s FROM cards WHERE tx_id IN (6, 8);
--- duckdb
VALUES (6, 135.75, 15.083333333, 0, 45.3, 45.2, 45, 1, 1024, 45, '45.25'), (8, 11.25, 1.25, 2, 3.8, 3.7, 3, -1, 1024, 3, '3.75')
=== process-hints table
SELECT /*+ BROADCAST(products) */ p.cat, COUNT(*) AS n, SUM(s.units) AS u FROM sales s INNER JOIN products p ON s.sku = p.sku GROUP BY p.cat;
--- duckdb
SELECT cat, count(*), sum(units) FROM sales JOIN products USING (sku) GROUP BY cat
