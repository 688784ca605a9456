CREATE TABLE trades (trade_id INT PRIMARY KEY, symbol VARCHAR, side VARCHAR, price DOUBLE PRECISION, qty INT, trade_time TIMESTAMP, WATERMARK FOR trade_time AS trade_time - INTERVAL '5 seconds') WITH (connector = 'filesystem', path = '${data}/trades.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE quotes (symbol VARCHAR, bid DOUBLE PRECISION, ask DOUBLE PRECISION, quote_time TIMESTAMP, WATERMARK FOR quote_time AS quote_time) WITH (connector = 'filesystem', path = '${data}/quotes.csv') FORMAT PLAIN ENCODE CSV;
CREATE TABLE users (user_id INT PRIMARY KEY, name VARCHAR, tier VARCHAR, country VARCHAR, joined DATE) WITH (connector = 'filesystem', path = '${data}/users.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE visits (visit_id INT, user_id INT, page VARCHAR, dwell_ms INT, visited_at TIMESTAMP, WATERMARK FOR visited_at AS visited_at - INTERVAL '30 seconds') WITH (connector = 'filesystem', path = '${data}/visits.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE devices (dev VARCHAR, at TIMESTAMP, reading STRUCT<temp DOUBLE PRECISION, hum INT>, tags VARCHAR[], hist INT[], meta JSONB, WATERMARK FOR at AS at) WITH (connector = 'filesystem', path = '${data}/devices.jsonl') FORMAT PLAIN ENCODE JSON;
CREATE SOURCE tickets (ticket_id VARCHAR, status VARCHAR, agent VARCHAR, changed_at TIMESTAMP, WATERMARK FOR changed_at AS changed_at) WITH (connector = 'filesystem', path = '${data}/tickets.csv') FORMAT PLAIN ENCODE CSV;
=== mv-count-window rows
CREATE MATERIALIZED VIEW volume_15m AS
SELECT symbol, window_start, window_end, SUM(qty) AS volume, COUNT(*) FILTER (WHERE side = 'sell') AS sells
FROM TUMBLE(trades, trade_time, INTERVAL '15 MINUTES')
GROUP BY symbol, window_start, window_end;
SELECT * FROM volume_15m WHERE volume > 20;
--- duckdb
SELECT symbol, w, w + INTERVAL 15 MINUTE, v, n FROM (SELECT symbol, time_bucket(INTERVAL 15 MINUTE, trade_time) w, sum(qty) v, count(*) FILTER (WHERE side = 'sell') n FROM trades GROUP BY ALL) WHERE v > 20
=== hop-avg rows
SELECT window_start, avg(price) AS p FROM HOP(trades, trade_time, INTERVAL '5 MINUTES', INTERVAL '15 MINUTES') WHERE symbol = 'ACME' GROUP BY window_start;
--- duckdb
SELECT s, avg(price) FROM trades, (SELECT unnest(generate_series(TIMESTAMP '2025-03-03 09:00:00', TIMESTAMP '2025-03-03 10:00:00', INTERVAL 5 MINUTE)) s) WHERE symbol = 'ACME' AND trade_time >= s AND trade_time < s + INTERVAL 15 MINUTE GROUP BY s
=== asof-left rows
SELECT t.trade_id, q.bid FROM trades t ASOF LEFT JOIN quotes q ON t.symbol = q.symbol AND t.trade_time >= q.quote_time;
--- duckdb
SELECT trade_id, bid FROM trades t ASOF LEFT JOIN quotes q ON t.symbol = q.symbol AND trade_time >= quote_time
=== first-last-per-group table
SELECT symbol, first_value(price ORDER BY trade_time) AS open, last_value(price ORDER BY trade_time) AS close, max(qty) - min(qty) AS spread FROM trades WHERE price IS NOT NULL GROUP BY symbol;
--- duckdb
SELECT symbol, first(price ORDER BY trade_time), last(price ORDER BY trade_time), max(qty) - min(qty) FROM trades WHERE price IS NOT NULL GROUP BY symbol
=== jsonb-access rows
SELECT dev, meta ->> 'fw' AS fw, (meta -> 'ports' ->> 0)::int AS p0, meta #>> '{gps,lat}' AS lat, jsonb_array_length(meta -> 'ports') AS n, meta ? 'gps' AS has, jsonb_typeof(meta -> 'fw') AS ty FROM devices WHERE meta IS NOT NULL;
--- duckdb
VALUES ('d1', '1.2', 80, '52.5', 2, true, 'string'), ('d2', NULL, NULL, NULL, 0, false, 'null'), ('d3', '2.0', 22, NULL, 1, false, 'string')
=== struct-field rows
SELECT dev, (reading).temp AS t, (reading).hum IS NULL AS dry FROM devices;
--- duckdb
SELECT dev, reading.temp, reading.hum IS NULL FROM devices
=== unnest-cross rows
SELECT d.dev, h FROM devices d CROSS JOIN unnest(d.hist) AS h;
--- duckdb
SELECT dev, unnest(hist) FROM devices
=== group-topn-with-ties table
SELECT symbol, trade_id, rk FROM (SELECT symbol, trade_id, rank() OVER (PARTITION BY symbol ORDER BY side) AS rk FROM trades) t WHERE rk <= 1;
--- duckdb
SELECT symbol, trade_id, rank() OVER (PARTITION BY symbol ORDER BY side) rk FROM trades QUALIFY rk <= 1
=== array-toolbox rows
SELECT dev, array_length(tags) AS n, cardinality(hist) AS c, array_position(tags, 'new') AS p, array_to_string(tags, ',') AS s, tags[1] AS f, hist[1:2] AS sl, array_append(hist, 9) AS ap, array_sum(hist) AS su, array_sort(hist) AS so, tags || ARRAY['z'] AS cat, 'attic' = ANY(tags) AS at_attic, hist @> ARRAY[2] AS has2 FROM devices WHERE dev <> 'd2' AND hist IS NOT NULL;
--- duckdb
VALUES ('d1', 2, 3, 2, 'attic,new', 'attic', [4, 1], [4, 1, 3, 9], 8, [1, 3, 4], ['attic', 'new', 'z'], true, false), ('d3', 3, 2, 3, 'roof,hot,new', 'roof', [2, 2], [2, 2, 9], 4, [2, 2], ['roof', 'hot', 'new', 'z'], false, true)
=== string-toolbox rows
SELECT user_id, initcap(lower(name)) AS i, split_part(name, ' ', -1) AS last, regexp_replace(name, '[aeiou]', '_', 'g') AS r, to_hex(user_id + 15) AS h, left(name, -2) AS l, btrim('  x ') AS b, starts_with(name, 'B') AS s, format('%s is %s', name, tier) AS f, octet_length(name) AS o, translate(name, 'an', 'AN') AS t, regexp_count(name, '[A-Z]') AS rc, string_to_array(name, ' ') AS sa FROM users WHERE user_id <= 2;
--- duckdb
VALUES (1, 'Ana Silva', 'Silva', 'An_ S_lv_', '10', 'Ana Sil', 'x', false, 'Ana Silva is gold', 9, 'ANA SilvA', 2, ['Ana', 'Silva']), (2, 'Bo Chen', 'Chen', 'B_ Ch_n', '11', 'Bo Ch', 'x', true, 'Bo Chen is silver', 7, 'Bo CheN', 2, ['Bo', 'Chen'])
=== time-toolbox rows
SELECT trade_id, date_trunc('hour', trade_time) AS h, extract(minute FROM trade_time) AS m, to_char(trade_time, 'YYYY-MM-DD HH24:MI') AS c, trade_time + INTERVAL '1 day 2 hours' AS nx, trade_time::date AS d, date_part('epoch', trade_time) AS e, make_timestamp(2025, 3, 3, 9, 0, 0.5) AS mk, trade_time - TIMESTAMP '2025-03-03 09:00:00' > INTERVAL '35 minutes' AS late FROM trades WHERE trade_id IN (1, 5);
--- duckdb
VALUES (1, '2025-03-03T09:00:00', 30, '2025-03-03 09:30', '2025-03-04T11:30:00', '2025-03-03', 1740994200, '2025-03-03T09:00:00.500000', false), (5, '2025-03-03T09:00:00', 36, '2025-03-03 09:36', '2025-03-04T11:36:20', '2025-03-03', 1740994580, '2025-03-03T09:00:00.500000', true)
=== eowc-view rows
CREATE MATERIALIZED VIEW mv AS SELECT window_start, count(*) AS n, string_agg(page, ',' ORDER BY visit_id) AS pages FROM TUMBLE(visits, visited_at, INTERVAL '30 minutes') GROUP BY window_start EMIT ON WINDOW CLOSE;
SELECT * FROM mv;
--- duckdb
SELECT time_bucket(INTERVAL 30 MINUTE, visited_at) w, count(*), string_agg(page, ',' ORDER BY visit_id) FROM visits GROUP BY w
=== sink-from-mv sink
CREATE MATERIALIZED VIEW big AS SELECT trade_id, qty FROM trades WHERE qty >= 60;
CREATE SINK big_sink FROM big WITH (connector = 'filesystem', path = '${out}/big') FORMAT PLAIN ENCODE PARQUET;
--- duckdb
VALUES ('big', 1, 100), ('big', 4, 60)
=== cte-two-aggs table
WITH b AS (SELECT symbol, sum(qty) AS q FROM trades WHERE side = 'buy' GROUP BY 1), s AS (SELECT symbol, sum(qty) AS q FROM trades WHERE side = 'sell' GROUP BY 1)
SELECT b.symbol, b.q - coalesce(s.q, 0) AS net FROM b LEFT JOIN s ON b.symbol = s.symbol;
--- duckdb
SELECT symbol, sum(CASE side WHEN 'buy' THEN qty ELSE -qty END) FROM trades GROUP BY symbol
=== window-agg-over-window rows
SELECT window_start, volume, SUM(volume) OVER (ORDER BY window_start ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two
FROM (SELECT window_start, sum(qty) AS volume FROM TUMBLE(trades, trade_time, INTERVAL '10 MINUTES') GROUP BY window_start);
--- duckdb
SELECT w, v, sum(v) OVER (ORDER BY w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM (SELECT time_bucket(INTERVAL 10 MINUTE, trade_time) w, sum(qty) v FROM trades GROUP BY w)
=== dynamic-filter-max table
SELECT trade_id FROM trades WHERE qty = (SELECT max(qty) FROM trades);
--- duckdb
VALUES (1)
=== percentile-mode table
SELECT symbol, percentile_cont(0.5) WITHIN GROUP (ORDER BY qty) AS p, mode() WITHIN GROUP (ORDER BY side) AS m, bool_or(qty > 50) AS b, var_samp(qty) AS v, jsonb_object_agg(trade_id, qty) IS NOT NULL AS j FROM trades WHERE symbol = 'ACME' GROUP BY symbol;
--- duckdb
SELECT symbol, quantile_cont(qty, 0.5), 'buy', true, var_samp(qty), true FROM trades WHERE symbol = 'ACME' GROUP BY symbol
=== generate-and-unnest table
SELECT * FROM generate_series(1, 9, 4) AS g(n);
--- duckdb
VALUES (1), (5), (9)
