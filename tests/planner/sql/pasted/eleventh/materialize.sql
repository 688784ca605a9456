CREATE TABLE rides (ride_id int, driver text, city text, km double precision, fare double precision, tip double precision, paid_by text, picked_at timestamp, dropped_at timestamp, WATERMARK FOR picked_at AS picked_at) WITH (path = '${data}/rides.csv');
CREATE TABLE drivers (driver text, full_name text, rating double precision, home text, hired date) WITH (path = '${data}/drivers.csv');
CREATE TABLE complaints (complaint_id int, ride_id int, reason text, made_at timestamp, WATERMARK FOR made_at AS made_at) WITH (path = '${data}/complaints.csv');
CREATE TABLE logs (host text, at timestamp, level text, msg text, labels text[], nums int[], ctx STRUCT<"user" text, geo STRUCT<cc text, lat double precision>>, doc jsonb, WATERMARK FOR at AS at) WITH (path = '${data}/logs.jsonl');
=== first-value-per-city table
SELECT t.city, r.ride_id, r.fare FROM (SELECT city, min(fare) AS fare FROM rides GROUP BY city) t JOIN rides r ON r.city = t.city AND r.fare = t.fare;
--- duckdb
SELECT city, ride_id, fare FROM rides QUALIFY rank() OVER (PARTITION BY city ORDER BY fare) = 1
=== auction-winning-bids table
CREATE TABLE auctions (id int, seller int, item text, end_time timestamp);
CREATE TABLE bids (id int, buyer int, auction_id int, amount int, bid_time timestamp);
INSERT INTO auctions VALUES (1, 7, 'vase', '2025-01-01 10:00:00'), (2, 8, 'car', '2025-01-01 11:00:00');
INSERT INTO bids VALUES (1, 3, 1, 10, '2025-01-01 09:00:00'), (2, 4, 1, 15, '2025-01-01 09:30:00'), (3, 3, 2, 900, '2025-01-01 10:30:00'), (4, 5, 1, 99, '2025-01-01 10:30:00');
CREATE VIEW winning_bids AS SELECT DISTINCT ON (a.id) b.*, a.item, a.seller FROM auctions AS a JOIN bids AS b ON a.id = b.auction_id WHERE b.bid_time < a.end_time ORDER BY a.id, b.amount DESC, b.bid_time, b.buyer;
SELECT item, buyer, amount FROM winning_bids;
--- duckdb
VALUES ('vase', 4, 15), ('car', 3, 900)
=== jsonb-path-casts rows
SELECT host, (doc ->> 'a')::int AS a, doc -> 'b' ->> 'c' AS c, jsonb_array_length(doc -> 'tags') AS n, doc #> '{b,c}' AS p, coalesce(doc ->> 'a', 'none') AS an, doc IS NULL AS isn FROM logs;
--- duckdb
VALUES ('web1', 1, 'x', 2, '"x"', '1', false), ('web2', 2, NULL, 0, 'null', '2', false), ('web1', NULL, NULL, 1, NULL, 'none', false), ('web3', NULL, NULL, NULL, NULL, 'none', true)
=== unnest-labels-count table
SELECT label, count(*) AS n, string_agg(host, ',' ORDER BY host) AS hosts FROM logs CROSS JOIN unnest(labels) AS t (label) GROUP BY label ORDER BY n DESC, label;
--- duckdb
VALUES ('eu', 2, 'web1,web3'), ('prod', 2, 'web1,web2'), ('test', 1, 'web3'), ('x', 1, 'web3')
=== text-functions-list rows
SELECT host, bit_length(level) AS b, left(level, 2) AS l, lpad(level, 7, '-') AS lp, regexp_replace(msg, '\d', '', 'g') AS r, repeat('z', 3) AS rep, right(msg, 2) AS ri, rtrim('a!!', '!') AS rt, starts_with(msg, 'GET') AS sw, to_hex(255) AS h, initcap('ab cd') AS ic, translate('abc', 'ab', 'xy') AS tr, concat_ws('/', host, level) AS cw, ascii('A') AS a, chr(66) AS c, btrim(' x ') AS bt, octet_length('é') AS o FROM logs WHERE host = 'web2';
--- duckdb
VALUES ('web2', 32, 'WA', '---WARN', 'GET /cart  ms', 'zzz', 'ms', 'a', true, 'ff', 'Ab Cd', 'xyc', 'web2/WARN', 65, 'B', 'x', 2)
=== sum-distinct-having-subquery table
SELECT driver, sum(fare) AS s, count(DISTINCT city) AS c, max(picked_at) AS last, bool_and(km > 1) AS far, stddev(fare) IS NULL AS one FROM rides GROUP BY driver HAVING sum(fare) > (SELECT avg(fare) FROM rides);
--- duckdb
SELECT driver, sum(fare) AS s, count(DISTINCT city), max(picked_at), bool_and(km > 1), stddev(fare) IS NULL FROM rides GROUP BY driver HAVING s > (SELECT avg(fare) FROM rides)
=== recursive-refused table
WITH RECURSIVE t (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT sum(n) AS s FROM t;
--- duckdb
VALUES (15)
=== case-greatest-nullif rows
SELECT ride_id, CASE WHEN km < 2 THEN 'short' WHEN km < 10 THEN 'mid' ELSE 'long' END AS len, greatest(fare, 10) AS g, least(tip, 1, NULL) AS l, nullif(tip, 0) AS n, fare::int AS fi, fare::numeric(10, 1) AS f1, (ride_id % 2 = 0) AND tip IS NOT NULL AS e, ride_id BETWEEN 2 AND 3 AS bt, paid_by IN ('card', 'app') AS p FROM rides WHERE ride_id < 6;
--- duckdb
SELECT ride_id, CASE WHEN km < 2 THEN 'short' WHEN km < 10 THEN 'mid' ELSE 'long' END, greatest(fare, 10), least(tip, 1), nullif(tip, 0), [8, 25, 4, 16, 12][ride_id], [8.5, 25, 4.3, 16, 11.8][ride_id], ride_id % 2 = 0 AND tip IS NOT NULL, ride_id BETWEEN 2 AND 3, paid_by IN ('card', 'app') FROM rides WHERE ride_id < 6
