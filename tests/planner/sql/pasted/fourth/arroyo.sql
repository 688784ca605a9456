CREATE TABLE orders (order_id BIGINT, customer_id BIGINT, product TEXT, amount DOUBLE, currency TEXT, order_time TIMESTAMP, WATERMARK FOR order_time AS order_time - INTERVAL '10 seconds') WITH (connector = 'filesystem', path = '${data}/orders.csv', format = 'csv', type = 'source');
CREATE TABLE readings (sensor TEXT, temp DOUBLE, ts TIMESTAMP NOT NULL, WATERMARK FOR ts) WITH (connector = 'filesystem', path = '${data}/readings.csv', format = 'csv', type = 'source');
=== tumble-call-named rows
SELECT count(*) AS n, tumble(interval '5 minutes') AS window, sensor FROM readings GROUP BY window, sensor;
--- duckdb
SELECT count(*), struct_pack("start" := w, "end" := w + INTERVAL 5 MINUTE), sensor FROM (SELECT sensor, time_bucket(INTERVAL 5 MINUTE, ts) w FROM readings) GROUP BY ALL
=== hop-slide-width rows
SELECT sensor, count(*) AS n FROM readings GROUP BY hop(interval '5 minutes', interval '10 minutes'), sensor;
--- duckdb
VALUES ('a', 3), ('a', 4), ('a', 1), ('b', 2), ('b', 3), ('b', 1)
=== session-call rows
SELECT sensor, max(temp) AS m FROM readings GROUP BY session(interval '2 minutes'), sensor;
--- duckdb
VALUES ('a', 25), ('a', 21), ('b', 5), ('b', 7.5), ('b', 6)
=== top-per-window rows
SELECT * FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window ORDER BY n DESC) AS row_num FROM (
    SELECT count(*) AS n, sensor, tumble(interval '5 minutes') AS window FROM readings WHERE temp > 0 GROUP BY 2, 3)
) WHERE row_num = 1 AND n > 1;
--- duckdb
SELECT 3, 'a', struct_pack("start" := TIMESTAMP '2024-05-01 10:00:00', "end" := TIMESTAMP '2024-05-01 10:05:00'), 1
=== window-field rows
SELECT window.start AS s, n FROM (SELECT tumble(interval '10 minutes') AS window, count(*) AS n FROM orders GROUP BY window);
--- duckdb
SELECT time_bucket(INTERVAL 10 MINUTE, order_time), count(*) FROM orders GROUP BY 1
