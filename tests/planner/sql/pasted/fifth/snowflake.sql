CREATE TABLE trades (trade_id int, symbol string, side string, price number(10, 2), qty int, trade_time timestamp, WATERMARK FOR trade_time AS trade_time) WITH (path = '${data}/trades.csv');
CREATE TABLE quotes (symbol string, bid double, ask double, quote_time timestamp, WATERMARK FOR quote_time AS quote_time) WITH (path = '${data}/quotes.csv');
CREATE TABLE visits (visit_id int, user_id int, page string, dwell_ms int, visited_at timestamp, WATERMARK FOR visited_at AS visited_at) WITH (path = '${data}/visits.csv');
CREATE TABLE devices (dev string, at timestamp, tags ARRAY<string>, hist ARRAY<int>, meta string, WATERMARK FOR at AS at) WITH (path = '${data}/devices.jsonl');
CREATE TABLE tickets (ticket_id string, status string, agent string, changed_at timestamp, WATERMARK FOR changed_at AS changed_at) WITH (path = '${data}/tickets.csv');
=== time-slice table
SELECT TIME_SLICE(trade_time, 15, 'MINUTE') AS slice, COUNT(*) AS n FROM trades GROUP BY slice;
--- duckdb
SELECT time_bucket(INTERVAL 15 MINUTE, trade_time) s, count(*) FROM trades GROUP BY s
=== asof-match-condition rows
SELECT t.trade_id, q.bid FROM trades t ASOF JOIN quotes q MATCH_CONDITION (t.trade_time >= q.quote_time) ON t.symbol = q.symbol;
--- duckdb
SELECT trade_id, bid FROM trades t ASOF LEFT JOIN quotes q ON t.symbol = q.symbol AND trade_time >= quote_time
=== qualify-latest table
SELECT * FROM tickets QUALIFY ROW_NUMBER() OVER (PARTITION BY ticket_id ORDER BY changed_at DESC) = 1;
--- duckdb
SELECT * FROM tickets QUALIFY row_number() OVER (PARTITION BY ticket_id ORDER BY changed_at DESC) = 1
=== flatten-parse-json rows
SELECT dev, PARSE_JSON(meta):gps.lat::float AS lat, PARSE_JSON(meta):fw::string AS fw FROM devices WHERE meta IS NOT NULL;
--- duckdb
VALUES ('d1', 52.5, '1.2'), ('d2', NULL, NULL), ('d3', NULL, '2.0')
=== conditional-functions rows
SELECT IFF(side = 'buy', 1, 0) AS b, ZEROIFNULL(price) AS z, NVL2(price, 'y', 'n') AS y, DECODE(symbol, 'ACME', 'a', 'ZETA', 'z', 'other') AS d, DIV0(qty, 0) AS d0, EQUAL_NULL(price, NULL) AS en FROM trades WHERE trade_id IN (1, 6);
--- duckdb
VALUES (1, 10, 'y', 'a', 0, false), (1, 0, 'n', 'other', 0, true)
=== dateadd-datediff rows
SELECT visit_id, DATEADD(minute, 5, visited_at) AS a, DATEDIFF('second', TIMESTAMP '2025-03-03 08:00:00', visited_at) AS d, DATE_PART(hour, visited_at) AS h, TO_CHAR(visited_at, 'YYYY-MM-DD') AS c, MONTHNAME(visited_at) AS mn, DAYNAME(visited_at) AS dn FROM visits WHERE visit_id < 3;
--- duckdb
VALUES (1, '2025-03-03T08:05:00', 0, 8, '2025-03-03', 'Mar', 'Mon'), (2, '2025-03-03T08:05:40', 40, 8, '2025-03-03', 'Mar', 'Mon')
=== listagg-within-group table
SELECT symbol, LISTAGG(side, ', ') WITHIN GROUP (ORDER BY trade_id DESC) AS s, COUNT_IF(qty > 20) AS c, BOOLOR_AGG(qty > 50) AS b, MAX_BY(trade_id, qty) AS m, ANY_VALUE(symbol) AS av FROM trades GROUP BY ALL;
--- duckdb
SELECT symbol, string_agg(side, ', ' ORDER BY trade_id DESC), count_if(qty > 20), bool_or(qty > 50), max_by(trade_id, qty), symbol FROM trades GROUP BY symbol
=== match-recognize-classifier rows
SELECT * FROM tickets MATCH_RECOGNIZE (PARTITION BY ticket_id ORDER BY changed_at MEASURES MATCH_NUMBER() AS mn, FIRST(changed_at) AS a, LAST(changed_at) AS b, COUNT(*) AS n ONE ROW PER MATCH PATTERN (o x+) DEFINE o AS status = 'open', x AS status <> 'open');
--- duckdb
VALUES ('T1', 1, '2025-03-01T23:50:00', '2025-03-02T05:00:00', 3), ('T2', 1, '2025-03-02T00:10:00', '2025-03-03T10:00:00', 2), ('T3', 1, '2025-03-03T11:00:00', '2025-03-04T00:00:00', 2)
