CREATE STREAM trades (trade_id INT KEY, symbol VARCHAR, side VARCHAR, price DOUBLE, qty INT, trade_time TIMESTAMP)
  WITH (KAFKA_TOPIC='trades', PATH='${data}/trades.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='trade_time', PARTITIONS=1);
CREATE TABLE quotes (symbol VARCHAR PRIMARY KEY, bid DOUBLE, ask DOUBLE, quote_time TIMESTAMP)
  WITH (PATH='${data}/quotes.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='quote_time');
CREATE STREAM visits (visit_id INT KEY, user_id INT, page VARCHAR, dwell_ms INT, visited_at TIMESTAMP)
  WITH (PATH='${data}/visits.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='visited_at');
CREATE STREAM devices (dev VARCHAR KEY, at TIMESTAMP, reading STRUCT<temp DOUBLE, hum INT>, tags ARRAY<VARCHAR>, hist ARRAY<INT>, meta VARCHAR)
  WITH (PATH='${data}/devices.jsonl', VALUE_FORMAT='JSON', TIMESTAMP='at');
CREATE STREAM tickets (ticket_id VARCHAR KEY, status VARCHAR, agent VARCHAR, changed_at TIMESTAMP)
  WITH (PATH='${data}/tickets.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='changed_at');
=== table-latest table
CREATE TABLE ticket_state AS SELECT ticket_id, LATEST_BY_OFFSET(status) AS status, COUNT(*) AS changes FROM tickets GROUP BY ticket_id EMIT CHANGES;
SELECT * FROM ticket_state;
--- duckdb
VALUES ('T1', 'closed', 3), ('T2', 'closed', 2), ('T3', 'assigned', 2)
=== anomalies-tumbling rows
CREATE TABLE possible_anomalies WITH (KAFKA_TOPIC = 'possible_anomalies', VALUE_AVRO_SCHEMA_FULL_NAME = 'io.x.A') AS
  SELECT user_id AS `user_key`, user_id, COUNT(*) AS n, SUM(dwell_ms) AS total, COLLECT_LIST(page) AS pages, WINDOWSTART AS s
  FROM visits WINDOW TUMBLING (SIZE 30 SECONDS, RETENTION 1000 DAYS) GROUP BY user_id HAVING COUNT(*) >= 1 EMIT FINAL;
SELECT `user_key`, n, pages FROM possible_anomalies WHERE total > 3000;
--- duckdb
VALUES (1, 1, ['/cart']), (2, 1, ['/cart'])
=== hopping-size rows
SELECT symbol, WINDOWSTART AS ws, SUM(qty) AS q FROM trades WINDOW HOPPING (SIZE 20 MINUTES, ADVANCE BY 10 MINUTES) WHERE symbol = 'ZETA' GROUP BY symbol EMIT FINAL;
--- duckdb
SELECT symbol, epoch_ms(s), sum(qty) FROM trades, (SELECT unnest(generate_series(TIMESTAMP '2025-03-03 09:00:00', TIMESTAMP '2025-03-03 10:00:00', INTERVAL 10 MINUTE)) s) WHERE symbol = 'ZETA' AND trade_time >= s AND trade_time < s + INTERVAL 20 MINUTE GROUP BY symbol, s
=== session-window rows
SELECT user_id, COUNT(*) AS n, TIMESTAMPTOSTRING(WINDOWSTART, 'HH:mm:ss', 'UTC') AS s, TIMESTAMPTOSTRING(WINDOWEND, 'HH:mm:ss', 'UTC') AS e FROM visits WINDOW SESSION (10 MINUTES) GROUP BY user_id EMIT FINAL;
--- duckdb
VALUES (1, 3, '08:00:00', '08:02:00'), (1, 1, '08:40:00', '08:40:00'), (2, 1, '08:00:40', '08:00:40'), (2, 1, '08:12:30', '08:12:30'), (2, 1, '08:44:00', '08:44:00'), (3, 1, '08:10:00', '08:10:00'), (3, 1, '08:45:30', '08:45:30'), (9, 1, '08:41:00', '08:41:00')
=== stream-table-left rows
CREATE STREAM priced WITH (VALUE_FORMAT='JSON') AS SELECT t.trade_id, t.symbol, q.bid, q.ask - q.bid AS spread FROM trades t LEFT JOIN quotes q ON t.symbol = q.symbol PARTITION BY t.symbol EMIT CHANGES;
SELECT symbol, trade_id, bid FROM priced EMIT CHANGES;
--- duckdb
SELECT t.symbol, trade_id, bid FROM trades t ASOF LEFT JOIN quotes q ON t.symbol = q.symbol AND trade_time >= quote_time
=== stream-stream-within rows
SELECT a.user_id, a.page, b.page FROM visits a INNER JOIN visits b WITHIN 2 MINUTES GRACE PERIOD 1 MINUTE ON a.user_id = b.user_id WHERE a.visit_id < b.visit_id EMIT CHANGES;
--- duckdb
SELECT a.user_id, a.page, b.page FROM visits a JOIN visits b ON a.user_id = b.user_id AND a.visit_id < b.visit_id AND abs(epoch(a.visited_at) - epoch(b.visited_at)) <= 120
=== struct-arrow rows
SELECT dev, reading->temp AS t, CASE WHEN reading->hum IS NULL THEN 'n/a' ELSE CAST(reading->hum AS VARCHAR) END AS h, tags[1] AS first, ARRAY_CONTAINS(tags, 'new') AS isnew FROM devices WHERE reading->temp > 0 EMIT CHANGES;
--- duckdb
VALUES ('d1', 19.5, '40', 'attic', true), ('d1', 21, '38', 'attic', false), ('d3', 30.25, '70', 'roof', true)
=== json-functions rows
SELECT dev, EXTRACTJSONFIELD(meta, '$.gps.lat') AS lat, JSON_ARRAY_LENGTH(EXTRACTJSONFIELD(meta, '$.ports')) AS n, IS_JSON_STRING(meta) AS ok, JSON_KEYS(meta) AS k FROM devices WHERE meta IS NOT NULL EMIT CHANGES;
--- duckdb
VALUES ('d1', '52.5', 2, true, ['fw', 'ports', 'gps']), ('d2', NULL, 0, true, ['fw', 'ports']), ('d3', NULL, 1, true, ['fw', 'ports'])
=== string-functions rows
SELECT visit_id, UCASE(page) AS u, LEN(page) AS l, SUBSTRING(page, 2, 3) AS s, REPLACE(page, '/', '#') AS r, SPLIT(page, '/')[2] AS sp, CONCAT(page, '?', CAST(user_id AS STRING)) AS c, LPAD(page, 6, '*') AS lp, INSTR(page, 'a') AS i, REGEXP_EXTRACT('/(.*)', page, 1) AS re, TRIM('  x ') AS t, INITCAP('the cat') AS ic FROM visits WHERE visit_id <= 2 EMIT CHANGES;
--- duckdb
VALUES (1, '/HOME', 5, 'hom', '#home', 'home', '/home?1', '*/home', 0, 'home', 'x', 'The Cat'), (2, '/HOME', 5, 'hom', '#home', 'home', '/home?2', '*/home', 0, 'home', 'x', 'The Cat')
=== time-functions rows
SELECT trade_id, FORMAT_TIMESTAMP(trade_time, 'yyyy-MM-dd HH:mm:ss') AS f, TIMESTAMPADD(HOURS, 1, trade_time) AS a, UNIX_TIMESTAMP(trade_time) AS u, PARSE_DATE('2025-03-03', 'yyyy-MM-dd') AS d, DATEADD(DAYS, 3, PARSE_DATE('2025-03-03', 'yyyy-MM-dd')) AS d3, STRINGTOTIMESTAMP('2025-03-03 01:00', 'yyyy-MM-dd HH:mm') AS st FROM trades WHERE trade_id = 2 EMIT CHANGES;
--- duckdb
VALUES (2, '2025-03-03 09:31:15', '2025-03-03T10:31:15', 1740994275000, '2025-03-03', '2025-03-06', 1740963600000)
=== topk-collect table
SELECT side, TOPK(qty, 2) AS top, TOPKDISTINCT(symbol, 2) AS sy, COUNT_DISTINCT(symbol) AS cd, EARLIEST_BY_OFFSET(trade_id) AS e, LATEST_BY_OFFSET(trade_id, 2) AS l2, MIN(qty) AS mi FROM trades GROUP BY side EMIT CHANGES;
--- duckdb
VALUES ('buy', [100, 60], ['ZETA', 'OMNI'], 3, 1, [8, 10], 5), ('sell', [40, 30], ['ZETA', 'OMNI'], 3, 2, [7, 9], 5)
=== histogram-of-pages table
SELECT 1 AS one, HISTOGRAM(page)['/home'] AS homes, STDDEV_SAMP(dwell_ms) AS sd, AVG(dwell_ms) AS a FROM visits GROUP BY 1 EMIT CHANGES;
--- duckdb
SELECT 1, 5, stddev_samp(dwell_ms), avg(dwell_ms) FROM visits
=== explode-two rows
SELECT dev, EXPLODE(hist) AS h FROM devices EMIT CHANGES;
--- duckdb
SELECT dev, unnest(hist) FROM devices
=== array-toolbox rows
SELECT dev, ARRAY_MAX(hist) AS mx, ARRAY_DISTINCT(hist) AS ad, ARRAY_JOIN(tags, '/') AS j, ARRAY_UNION(hist, ARRAY[9]) AS u, ARRAY_EXCEPT(hist, ARRAY[2]) AS ex, SLICE(hist, 1, 1) AS sl, ARRAY_REMOVE(tags, 'new') AS rm, GENERATE_SERIES(1, 3) AS g FROM devices WHERE hist IS NOT NULL EMIT CHANGES;
--- duckdb
VALUES ('d1', 4, [4, 1, 3], 'attic/new', [4, 1, 3, 9], [4, 1, 3], [4], ['attic'], [1, 2, 3]), ('d2', 7, [7], '', [7, 9], [7], [7], [], [1, 2, 3]), ('d3', 2, [2], 'roof/hot/new', [2, 9], [], [2], ['roof', 'hot'], [1, 2, 3])
=== insert-into-merge sink
CREATE STREAM all_pages (user_id INT, page VARCHAR) WITH (PATH='${out}/all_pages', VALUE_FORMAT='PARQUET', PARTITIONS=1);
INSERT INTO all_pages SELECT user_id, page FROM visits WHERE page = '/pay' EMIT CHANGES;
INSERT INTO all_pages SELECT user_id, 'x' + page AS page FROM visits WHERE page = '/help' EMIT CHANGES;
--- duckdb
VALUES ('all_pages', 1, '/pay'), ('all_pages', 3, '/pay'), ('all_pages', 2, 'x/help')
=== rowtime-where rows
SELECT visit_id, ROWTIME AS rt FROM visits WHERE ROWTIME >= '2025-03-03T08:41:00' AND user_id IN (2, 3) EMIT CHANGES LIMIT 5;
--- duckdb
SELECT visit_id, epoch_ms(visited_at) FROM visits WHERE visited_at >= '2025-03-03T08:41:00' AND user_id IN (2, 3)
