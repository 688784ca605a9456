CREATE STREAM pageviews (viewtime BIGINT, userid VARCHAR, pageid VARCHAR, ms INT)
  WITH (PATH='${data}/pageviews.jsonl', FORMAT='JSON', TIMESTAMP='viewtime');
CREATE STREAM orders (order_id BIGINT KEY, customer VARCHAR, product VARCHAR, category VARCHAR, amount INT, price DOUBLE, ts TIMESTAMP)
  WITH (PATH='${data}/orders.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='ts');
CREATE STREAM shipments (shipment_id BIGINT, order_id BIGINT, carrier VARCHAR, ship_time TIMESTAMP)
  WITH (PATH='${data}/shipments.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='ship_time');
=== tumbling-count rows
SELECT pageid, COUNT(*) AS views FROM pageviews
WINDOW TUMBLING (SIZE 1 MINUTE)
GROUP BY pageid EMIT FINAL;
--- duckdb
SELECT pageid, count(*) FROM pageviews GROUP BY pageid, time_bucket(INTERVAL '1 minute', ts)
=== tumbling-bounds rows
SELECT userid, WINDOWSTART AS since, WINDOWEND AS until, SUM(ms) AS total FROM pageviews
WINDOW TUMBLING (SIZE 60 SECONDS, RETENTION 7 DAYS, GRACE PERIOD 30 MINUTES)
GROUP BY userid;
--- duckdb
SELECT userid, epoch_ms(w), epoch_ms(w + INTERVAL 1 MINUTE), s FROM (SELECT userid, time_bucket(INTERVAL '1 minute', ts) w, sum(ms) s FROM pageviews GROUP BY ALL)
=== hopping rows
SELECT userid, COUNT(*) AS n FROM pageviews
WINDOW HOPPING (SIZE 60 SECONDS, ADVANCE BY 30 SECONDS)
GROUP BY userid;
--- duckdb
SELECT userid, count(*) FROM pageviews, (SELECT unnest(generate_series(TIMESTAMP '2026-01-01 09:59:00', TIMESTAMP '2026-01-01 10:10:00', INTERVAL 30 SECOND)) s) WHERE ts >= s AND ts < s + INTERVAL 1 MINUTE GROUP BY userid, s
=== session rows
SELECT userid, COUNT(*) AS n FROM pageviews
WINDOW SESSION (60 SECONDS)
GROUP BY userid;
--- duckdb
WITH a AS (SELECT *, CASE WHEN ts - lag(ts) OVER (PARTITION BY userid ORDER BY ts) <= INTERVAL 1 MINUTE THEN 0 ELSE 1 END n FROM pageviews), b AS (SELECT *, sum(n) OVER (PARTITION BY userid ORDER BY ts) g FROM a) SELECT userid, count(*) FROM b GROUP BY userid, g
=== having-window rows
SELECT userid, COUNT(*) AS n FROM pageviews
WINDOW TUMBLING (SIZE 1 HOUR)
GROUP BY userid HAVING COUNT(*) > 2;
--- duckdb
SELECT userid, count(*) FROM pageviews GROUP BY userid HAVING count(*) > 2
=== table-as-select table
CREATE TABLE views_by_user AS
  SELECT userid, COUNT(*) AS n, LATEST_BY_OFFSET(pageid) AS latest
  FROM pageviews GROUP BY userid EMIT CHANGES;
SELECT * FROM views_by_user EMIT CHANGES;
--- duckdb
SELECT userid, count(*), max_by(pageid, ts) FROM pageviews GROUP BY userid
=== pull-query-key table
CREATE TABLE views_by_page AS SELECT pageid, COUNT(*) AS n FROM pageviews GROUP BY pageid;
SELECT n FROM views_by_page WHERE pageid = 'home';
--- duckdb
SELECT count(*) FROM pageviews WHERE pageid = 'home'
=== stream-as-select rows
CREATE STREAM slow_views WITH (VALUE_FORMAT='JSON', PARTITIONS=2) AS
  SELECT userid, pageid, ms FROM pageviews WHERE ms > 100 EMIT CHANGES;
SELECT * FROM slow_views EMIT CHANGES;
--- duckdb
SELECT userid, pageid, ms FROM pageviews WHERE ms > 100
=== push-query rows
SELECT ROWTIME, userid, UCASE(pageid) AS page FROM pageviews WHERE userid LIKE 'a%' EMIT CHANGES;
--- duckdb
SELECT viewtime, userid, upper(pageid) FROM pageviews WHERE userid LIKE 'a%'
=== stream-join-within rows
SELECT o.order_id AS id, o.product, s.carrier FROM orders o
  INNER JOIN shipments s WITHIN 10 MINUTES ON o.order_id = s.order_id EMIT CHANGES;
--- duckdb
SELECT o.order_id, o.product, s.carrier FROM orders o JOIN shipments s ON o.order_id = s.order_id AND s.ship_time BETWEEN o.ts - INTERVAL 10 MINUTE AND o.ts + INTERVAL 10 MINUTE
=== stream-join-within-before-after rows
SELECT o.order_id AS id, s.carrier FROM orders o
  LEFT JOIN shipments s WITHIN (0 SECONDS, 5 MINUTES) GRACE PERIOD 1 MINUTE ON o.order_id = s.order_id EMIT CHANGES;
--- duckdb
SELECT o.order_id, s.carrier FROM orders o LEFT JOIN shipments s ON o.order_id = s.order_id AND s.ship_time BETWEEN o.ts AND o.ts + INTERVAL 5 MINUTE
=== stream-table-join rows
CREATE TABLE rates (currency VARCHAR PRIMARY KEY, rate DOUBLE, update_time TIMESTAMP)
  WITH (PATH='${data}/rates.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='update_time');
CREATE STREAM sales (sale_id INT, currency VARCHAR, total INT, sold_at TIMESTAMP)
  WITH (PATH='${data}/sales.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='sold_at');
SELECT s.sale_id, s.total * r.rate AS euros FROM sales s LEFT JOIN rates r ON s.currency = r.currency EMIT CHANGES;
--- duckdb
SELECT sale_id, total * r.rate FROM sales s ASOF LEFT JOIN rates r ON s.currency = r.currency AND s.sold_at >= r.update_time
=== insert-into-stream sink
CREATE STREAM all_slow (userid VARCHAR, ms INT) WITH (PATH='${out}/slow', FORMAT='PARQUET');
INSERT INTO all_slow SELECT userid, ms FROM pageviews WHERE ms > 200 EMIT CHANGES;
--- duckdb
SELECT 'slow', userid, ms FROM pageviews WHERE ms > 200
=== collect-topk table
SELECT userid, TOPK(ms, 2) AS longest, COLLECT_LIST(pageid) AS pages FROM pageviews GROUP BY userid EMIT CHANGES;
--- duckdb
SELECT userid, list_sort(list(ms), 'DESC')[1:2], list(pageid ORDER BY ts) FROM pageviews GROUP BY userid
=== case-expression rows
SELECT order_id, CASE WHEN amount < 2 THEN 'small' WHEN amount < 5 THEN 'medium' ELSE 'large' END AS size FROM orders EMIT CHANGES;
--- duckdb
SELECT order_id, CASE WHEN amount < 2 THEN 'small' WHEN amount < 5 THEN 'medium' ELSE 'large' END FROM orders
=== latest-and-earliest rows
SELECT userid, LATEST_BY_OFFSET(pageid) AS l, EARLIEST_BY_OFFSET(pageid) AS e, COUNT_DISTINCT(pageid) AS n FROM pageviews WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY userid EMIT FINAL;
--- duckdb
SELECT userid, arg_max(pageid, ts), arg_min(pageid, ts), count(DISTINCT pageid) FROM pageviews GROUP BY userid, time_bucket(INTERVAL '1 minute', ts)
=== extract-json-field rows
SELECT EXTRACTJSONFIELD(TO_JSON_STRING(STRUCT(p := pageid, m := ms)), '$.p') AS p, ARRAY_MAX(ARRAY[ms, 100]) AS m FROM pageviews;
--- duckdb
SELECT pageid, greatest(ms, 100) FROM pageviews
