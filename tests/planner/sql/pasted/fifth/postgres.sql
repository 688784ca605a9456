CREATE TABLE trades (trade_id int, symbol text, side text, price numeric(10, 2), qty int, trade_time timestamp, WATERMARK FOR trade_time AS trade_time) WITH (path = '${data}/trades.csv');
CREATE TABLE quotes (symbol text, bid double precision, ask double precision, quote_time timestamp, WATERMARK FOR quote_time AS quote_time) WITH (path = '${data}/quotes.csv');
CREATE TABLE users (user_id int, name varchar(40), tier text, country varchar(2), joined date) WITH (path = '${data}/users.csv');
CREATE TABLE visits (visit_id int, user_id int, page text, dwell_ms int, visited_at timestamp, WATERMARK FOR visited_at AS visited_at) WITH (path = '${data}/visits.csv');
CREATE TABLE tickets (ticket_id text, status text, agent text, changed_at timestamp, WATERMARK FOR changed_at AS changed_at) WITH (path = '${data}/tickets.csv');
=== candlestick table
SELECT time_bucket('15 minutes', trade_time) AS bucket, symbol, first(price, trade_time) AS open, max(price) AS high, min(price) AS low, last(price, trade_time) AS close, sum(qty) AS volume
FROM trades WHERE symbol <> 'OMNI' GROUP BY bucket, symbol;
--- duckdb
SELECT time_bucket(INTERVAL 15 MINUTE, trade_time) b, symbol, first(price ORDER BY trade_time), max(price), min(price), last(price ORDER BY trade_time), sum(qty) FROM trades WHERE symbol <> 'OMNI' GROUP BY b, symbol
=== gaps-and-islands table
WITH numbered AS (
  SELECT *, row_number() OVER (ORDER BY trade_time) - row_number() OVER (PARTITION BY side ORDER BY trade_time) AS grp FROM trades
)
SELECT side, grp, count(*) AS len, min(trade_id) AS first_id FROM numbered GROUP BY side, grp;
--- duckdb
SELECT side, grp, count(*), min(trade_id) FROM (SELECT *, row_number() OVER (ORDER BY trade_time) - row_number() OVER (PARTITION BY side ORDER BY trade_time) grp FROM trades) GROUP BY side, grp
=== sessionize-by-lag table
SELECT user_id, session_no, count(*) AS hits FROM (
  SELECT *, sum(is_new) OVER (PARTITION BY user_id ORDER BY visited_at) AS session_no FROM (
    SELECT *, CASE WHEN visited_at - lag(visited_at) OVER (PARTITION BY user_id ORDER BY visited_at) > interval '30 minutes' THEN 1 ELSE 0 END AS is_new FROM visits) a) b
GROUP BY user_id, session_no;
--- duckdb
SELECT user_id, session_no, count(*) FROM (SELECT *, sum(is_new) OVER (PARTITION BY user_id ORDER BY visited_at) session_no FROM (SELECT *, CASE WHEN visited_at - lag(visited_at) OVER (PARTITION BY user_id ORDER BY visited_at) > INTERVAL 30 MINUTE THEN 1 ELSE 0 END is_new FROM visits)) GROUP BY user_id, session_no
=== funnel-by-bool table
SELECT count(*) FILTER (WHERE saw) AS saw, count(*) FILTER (WHERE saw AND carted) AS carted, count(*) FILTER (WHERE saw AND carted AND paid) AS paid
FROM (SELECT user_id, bool_or(page = '/home') AS saw, bool_or(page = '/cart') AS carted, bool_or(page = '/pay') AS paid FROM visits GROUP BY user_id) f;
--- duckdb
VALUES (4, 2, 1)
=== running-share table
SELECT symbol, qty, round(100.0 * qty / sum(qty) OVER (PARTITION BY symbol), 1) AS pct, cume_dist() OVER (PARTITION BY symbol ORDER BY qty) AS cd, percent_rank() OVER (PARTITION BY symbol ORDER BY qty) AS pr FROM trades;
--- duckdb
SELECT symbol, qty, round(100.0 * qty / sum(qty) OVER (PARTITION BY symbol), 1), cume_dist() OVER (PARTITION BY symbol ORDER BY qty), percent_rank() OVER (PARTITION BY symbol ORDER BY qty) FROM trades
=== ntile-and-nth table
SELECT trade_id, ntile(3) OVER (ORDER BY trade_id) AS third, nth_value(symbol, 2) OVER (ORDER BY trade_id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS second FROM trades;
--- duckdb
SELECT trade_id, ntile(3) OVER (ORDER BY trade_id), 'ACME' FROM trades
=== lateral-latest table
SELECT u.name, v.page, v.visited_at FROM users u LEFT JOIN LATERAL (SELECT page, visited_at FROM visits WHERE visits.user_id = u.user_id ORDER BY visited_at DESC LIMIT 1) v ON true;
--- duckdb
SELECT name, page, visited_at FROM users u LEFT JOIN (SELECT user_id, page, visited_at FROM visits QUALIFY row_number() OVER (PARTITION BY user_id ORDER BY visited_at DESC) = 1) v ON v.user_id = u.user_id
=== date-arithmetic table
SELECT user_id, joined - DATE '2024-01-01' AS days, joined + 7 AS week, date_trunc('quarter', joined)::date AS q, extract(epoch FROM joined) AS e, age(TIMESTAMP '2025-03-31', joined) > INTERVAL '6 months' AS old, to_char(joined, 'IYYY-IW') AS iso, make_date(2024, 2, 29) AS md FROM users;
--- duckdb
SELECT user_id, joined - DATE '2024-01-01', joined + 7, date_trunc('quarter', joined), epoch(joined), joined < DATE '2024-09-30', strftime(joined, '%G-%V'), DATE '2024-02-29' FROM users
=== string-agg-distinct table
SELECT user_id, string_agg(DISTINCT page, ',' ORDER BY page) AS pages, array_agg(dwell_ms ORDER BY visited_at) FILTER (WHERE dwell_ms IS NOT NULL) AS d, max(length(page)) AS m FROM visits GROUP BY user_id;
--- duckdb
SELECT user_id, string_agg(DISTINCT page, ',' ORDER BY page), list(dwell_ms ORDER BY visited_at) FILTER (WHERE dwell_ms IS NOT NULL), max(length(page)) FROM visits GROUP BY user_id
=== values-join-in table
SELECT u.name, w.weight FROM users u JOIN (VALUES ('gold', 3), ('silver', 2)) AS w (tier, weight) USING (tier);
--- duckdb
VALUES ('Ana Silva', 3), ('Bo Chen', 2), ('Cid Roy', 3)
=== not-exists-gap table
SELECT a.visit_id FROM visits a WHERE NOT EXISTS (SELECT 1 FROM visits b WHERE b.user_id = a.user_id AND b.visited_at > a.visited_at);
--- duckdb
SELECT visit_id FROM visits a WHERE NOT EXISTS (SELECT 1 FROM visits b WHERE b.user_id = a.user_id AND b.visited_at > a.visited_at)
=== coalesce-casts rows
SELECT trade_id, coalesce(price::text, 'none') AS p, price::int AS pi, (qty / 7) AS i, qty % 7 AS m, qty / 7.0 > 1 AS r, power(qty, 2) AS p2, round(price, 1) AS r1, trunc(price) AS t, sign(qty - 20) AS s, greatest(qty, 30, NULL) AS g, CAST(AVG(qty) OVER (PARTITION BY trade_id) AS numeric(10, 1)) AS a FROM trades WHERE trade_id IN (2, 6);
--- duckdb
VALUES (2, '10.50', 11, 5, 5, true, 1600, 10.5, 10, 1, 40, 40), (6, 'none', NULL, 2, 6, true, 400, NULL, NULL, 0, 30, 20)
=== union-and-order table
SELECT 'v' AS kind, count(*) AS n FROM visits UNION ALL SELECT 't', count(*) FROM trades UNION ALL SELECT 'u', count(*) FROM users ORDER BY n DESC, kind;
--- duckdb
VALUES ('t', 10), ('v', 10), ('u', 4)
=== distinct-on-expression table
SELECT DISTINCT ON (lower(side)) side, trade_id, qty FROM trades ORDER BY lower(side), qty DESC NULLS LAST;
--- duckdb
VALUES ('buy', 1, 100), ('sell', 2, 40)
=== moving-average-range rows
SELECT trade_id, avg(price) OVER (PARTITION BY symbol ORDER BY trade_time RANGE BETWEEN '5 minutes' PRECEDING AND CURRENT ROW) AS ma FROM trades;
--- duckdb
SELECT trade_id, avg(price) OVER (PARTITION BY symbol ORDER BY trade_time RANGE BETWEEN INTERVAL 5 MINUTE PRECEDING AND CURRENT ROW) FROM trades
