CREATE TABLE trades (trade_id int, symbol text, side text, price double precision, qty int, trade_time timestamp, WATERMARK FOR trade_time AS trade_time - INTERVAL '5 seconds') WITH (path = '${data}/trades.csv');
CREATE TABLE quotes (symbol text, bid double precision, ask double precision, quote_time timestamp, WATERMARK FOR quote_time AS quote_time) WITH (path = '${data}/quotes.csv');
CREATE TABLE users (user_id int, name text, tier text, country text, joined date) WITH (path = '${data}/users.csv');
CREATE TABLE visits (visit_id int, user_id int, page text, dwell_ms int, visited_at timestamp, WATERMARK FOR visited_at AS visited_at) WITH (path = '${data}/visits.csv');
CREATE TABLE devices (dev text, at timestamp, reading STRUCT<temp double precision, hum int>, tags text[], hist int[], meta jsonb, WATERMARK FOR at AS at) WITH (path = '${data}/devices.jsonl');
CREATE TABLE tickets (ticket_id text, status text, agent text, changed_at timestamp, WATERMARK FOR changed_at AS changed_at) WITH (path = '${data}/tickets.csv');
=== mv-and-index table
CREATE MATERIALIZED VIEW winning AS SELECT DISTINCT ON (symbol) symbol, trade_id, price FROM trades WHERE price IS NOT NULL ORDER BY symbol, price DESC;
CREATE INDEX winning_idx ON winning (symbol);
SELECT * FROM winning WHERE symbol IN ('ACME', 'ZETA');
--- duckdb
VALUES ('ACME', 7, 11), ('ZETA', 5, 101.1)
=== open-tickets table
CREATE VIEW last_status AS SELECT DISTINCT ON (ticket_id) * FROM tickets ORDER BY ticket_id, changed_at DESC;
SELECT count(*) AS still_open FROM last_status WHERE status != 'closed';
--- duckdb
VALUES (1)
=== sliding-window now
SELECT symbol, sum(qty) AS q FROM trades WHERE mz_now() <= trade_time + INTERVAL '10 minutes' GROUP BY symbol;
--- duckdb
SELECT symbol, sum(qty) FROM trades WHERE trade_time > TIMESTAMP '2025-03-03 09:42:10' GROUP BY symbol
=== hourly-bins table
SELECT date_bin(INTERVAL '15 minutes', visited_at, TIMESTAMP '2025-01-01') AS b, count(DISTINCT user_id) AS users FROM visits GROUP BY 1 HAVING count(*) > 1;
--- duckdb
SELECT time_bucket(INTERVAL 15 MINUTE, visited_at) b, count(DISTINCT user_id) FROM visits GROUP BY b HAVING count(*) > 1
=== lateral-series rows
SELECT q.symbol, n FROM quotes q CROSS JOIN LATERAL generate_series(1, 2) AS n WHERE q.symbol = 'OMNI';
--- duckdb
VALUES ('OMNI', 1), ('OMNI', 2)
=== jsonb-array-elements rows
SELECT dev, value AS port FROM devices, jsonb_array_elements(meta -> 'ports');
--- duckdb
VALUES ('d1', '80'), ('d1', '443'), ('d3', '22')
=== jsonb-build rows
SELECT jsonb_build_object('d', dev, 't', 1)->>'d' AS d, jsonb_build_array(1, dev)->>1 AS e, (meta->'gps'->>'lat')::float + 1 AS lat FROM devices WHERE dev = 'd1' AND meta IS NOT NULL;
--- duckdb
VALUES ('d1', 'd1', 53.5)
=== list-agg-order table
SELECT symbol, array_agg(qty ORDER BY qty DESC) AS qs, string_agg(side, '>' ORDER BY trade_id) AS s, list_agg(qty) IS NOT NULL AS l FROM trades GROUP BY symbol;
--- duckdb
SELECT symbol, list(qty ORDER BY qty DESC), string_agg(side, '>' ORDER BY trade_id), true FROM trades GROUP BY symbol
=== case-and-filters table
SELECT side, count(*) FILTER (WHERE price > 50) AS high, sum(CASE WHEN symbol = 'ACME' THEN qty END) AS acme, avg(qty) AS a, count(price) AS c FROM trades GROUP BY side ORDER BY side;
--- duckdb
SELECT side, count(*) FILTER (WHERE price > 50), sum(qty) FILTER (WHERE symbol = 'ACME'), avg(qty), count(price) FROM trades GROUP BY side
=== having-join table
SELECT u.name, sum(v.dwell_ms) AS total FROM users u JOIN visits v ON v.user_id = u.user_id GROUP BY u.user_id, u.name HAVING sum(v.dwell_ms) > 1000;
--- duckdb
SELECT name, sum(dwell_ms) FROM users JOIN visits USING (user_id) GROUP BY user_id, name HAVING sum(dwell_ms) > 1000
=== except-all-and-union table
(SELECT page FROM visits WHERE user_id = 1) EXCEPT ALL (SELECT page FROM visits WHERE user_id = 2);
--- duckdb
VALUES ('/home'), ('/pay')
=== self-left-join table
SELECT o.ticket_id, c.changed_at - o.changed_at AS took FROM tickets o LEFT JOIN tickets c ON o.ticket_id = c.ticket_id AND c.status = 'closed' WHERE o.status = 'open';
--- duckdb
SELECT o.ticket_id, c.changed_at - o.changed_at FROM tickets o LEFT JOIN tickets c ON o.ticket_id = c.ticket_id AND c.status = 'closed' WHERE o.status = 'open'
=== scalar-max table
SELECT trade_id, qty::numeric / (SELECT sum(qty) FROM trades) AS share FROM trades WHERE symbol = 'ZETA';
--- duckdb
SELECT trade_id, qty / 303 FROM trades WHERE symbol = 'ZETA'
=== regexp-and-text rows
SELECT visit_id, regexp_match(page, '/(\w)(\w+)') AS m, page ~ '^/p' AS p, page !~* 'HOME' AS nh, replace(page, '/', '') AS r, substring(page FROM 2 FOR 3) AS s, position('a' IN page) AS pos, right(page, 2) AS ri, md5(page) AS h, lower(page) || '!' AS x FROM visits WHERE visit_id < 4;
--- duckdb
SELECT visit_id, [page[2], page[3:]], page LIKE '/p%', page <> '/home', page[2:], page[2:4], position('a' IN page), right(page, 2), md5(page), page || '!' FROM visits WHERE visit_id < 4
=== dates-and-extract rows
SELECT user_id, extract(year FROM joined) AS y, extract(quarter FROM joined) AS q, extract(isodow FROM joined) AS d, date_trunc('month', joined) AS m, joined + INTERVAL '1 month' AS nm, joined < '2024-06-01' AS early, to_char(joined, 'Mon DD, YYYY') AS c FROM users;
--- duckdb
SELECT user_id, year(joined), quarter(joined), isodow(joined), date_trunc('month', joined)::TIMESTAMP, joined + INTERVAL 1 MONTH, joined < '2024-06-01', strftime(joined, '%b %d, %Y') FROM users
=== row-number-ties table
SELECT symbol, trade_id FROM (SELECT *, row_number() OVER (PARTITION BY symbol, side ORDER BY trade_time) AS rn FROM trades) WHERE rn = 2;
--- duckdb
VALUES ('ACME', 4), ('ACME', 7), ('ZETA', 8)
=== count-distinct-pairs table
SELECT count(DISTINCT (symbol, side)) AS pairs, count(DISTINCT symbol) AS symbols FROM trades;
--- duckdb
VALUES (6, 3)
