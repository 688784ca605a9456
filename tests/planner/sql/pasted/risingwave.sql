CREATE SOURCE taxi_trips (
  id INT, company VARCHAR, distance DOUBLE PRECISION, duration DOUBLE PRECISION, fare INT,
  completed_at TIMESTAMP,
  WATERMARK FOR completed_at AS completed_at - INTERVAL '1 minute'
) WITH (connector = 'filesystem', path = '${data}/taxi.csv') FORMAT PLAIN ENCODE CSV (without_header = 'false', delimiter = ',');
CREATE TABLE orders (
  order_id BIGINT, customer VARCHAR, product VARCHAR, category VARCHAR, amount INT, price DOUBLE PRECISION,
  ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds'
) WITH (connector = 'filesystem', path = '${data}/orders.csv') FORMAT PLAIN ENCODE CSV;
CREATE TABLE users (user_id INT PRIMARY KEY, name VARCHAR, city VARCHAR, age INT, referrer INT)
WITH (connector = 'filesystem', path = '${data}/users.csv') FORMAT PLAIN ENCODE CSV;
=== tumble-from rows
SELECT window_start, window_end, count(id) as no_of_trips, sum(distance) as total_distance
FROM TUMBLE (taxi_trips, completed_at, INTERVAL '2 MINUTES')
GROUP BY window_start, window_end
ORDER BY window_start ASC;
--- duckdb
SELECT time_bucket(INTERVAL '2 minutes', completed_at) w, w + INTERVAL 2 MINUTE, count(id), sum(distance) FROM taxi GROUP BY w
=== hop-from rows
SELECT window_start, window_end, count(id) as no_of_trips
FROM HOP (taxi_trips, completed_at, INTERVAL '1 MINUTE', INTERVAL '2 MINUTES')
GROUP BY window_start, window_end;
--- duckdb
SELECT s, s + INTERVAL 2 MINUTE, count(*) FROM taxi, (SELECT unnest(generate_series(TIMESTAMP '2026-01-01 09:58:00', TIMESTAMP '2026-01-01 10:30:00', INTERVAL 1 MINUTE)) s) WHERE completed_at >= s AND completed_at < s + INTERVAL 2 MINUTE GROUP BY s
=== tumble-rows-only rows
SELECT id, fare, window_start FROM TUMBLE(taxi_trips, completed_at, INTERVAL '2 MINUTES');
--- duckdb
SELECT id, fare, time_bucket(INTERVAL '2 minutes', completed_at) FROM taxi
=== materialized-view table
CREATE MATERIALIZED VIEW fare_by_company AS
SELECT company, sum(fare) AS total, avg(fare)::float AS mean FROM taxi_trips GROUP BY company;
SELECT * FROM fare_by_company;
--- duckdb
SELECT company, sum(fare), avg(fare) FROM taxi GROUP BY company
=== cascading-views table
CREATE MATERIALIZED VIEW mv1 AS
SELECT company, window_start, count(*) AS trips FROM TUMBLE(taxi_trips, completed_at, INTERVAL '5 minutes') GROUP BY company, window_start;
CREATE MATERIALIZED VIEW mv2 AS SELECT company, max(trips) AS most FROM mv1 GROUP BY company;
SELECT company, most FROM mv2 WHERE most > 0;
--- duckdb
SELECT company, max(n) FROM (SELECT company, count(*) n FROM taxi GROUP BY company, time_bucket(INTERVAL '5 minutes', completed_at)) GROUP BY company
=== emit-on-window-close rows
CREATE MATERIALIZED VIEW window_count AS
SELECT window_start, COUNT(*)
FROM TUMBLE(taxi_trips, completed_at, INTERVAL '2 minute')
GROUP BY window_start
EMIT ON WINDOW CLOSE;
SELECT * FROM window_count;
--- duckdb
SELECT time_bucket(INTERVAL '2 minutes', completed_at) w, count(*) FROM taxi GROUP BY w
=== date-trunc-group table
SELECT date_trunc('hour', completed_at) AS hour, count(*) AS trips FROM taxi_trips GROUP BY date_trunc('hour', completed_at);
--- duckdb
SELECT date_trunc('hour', completed_at) h, count(*) FROM taxi GROUP BY h
=== top-n table
SELECT product, category, amount FROM (
  SELECT product, category, amount, row_number() OVER (PARTITION BY category ORDER BY amount DESC) AS rank FROM orders
) AS ranked WHERE rank <= 1;
--- duckdb
SELECT product, category, amount FROM orders QUALIFY row_number() OVER (PARTITION BY category ORDER BY amount DESC) <= 1
=== create-sink sink
CREATE SINK big_fares AS SELECT id, fare FROM taxi_trips WHERE fare > 12
WITH (connector = 'filesystem', path = '${out}/fares', type = 'append-only');
--- duckdb
SELECT 'fares', id, fare FROM taxi WHERE fare > 12
=== integer-division rows
SELECT id, fare / 2 AS half, fare % 5 AS rest, -fare / 5 AS negative FROM taxi_trips;
--- duckdb
SELECT id, fare // 2, fare % 5, -(fare // 5) FROM taxi
=== filter-case table
SELECT company, count(*) FILTER (WHERE distance > 4) AS far, sum(CASE WHEN fare > 10 THEN 1 ELSE 0 END) AS dear FROM taxi_trips GROUP BY company;
--- duckdb
SELECT company, count(*) FILTER (WHERE distance > 4), sum(CASE WHEN fare > 10 THEN 1 ELSE 0 END) FROM taxi GROUP BY company
=== distinct-on table
SELECT DISTINCT ON (company) company, id, fare FROM taxi_trips ORDER BY company, fare DESC;
--- duckdb
SELECT company, id, fare FROM taxi QUALIFY row_number() OVER (PARTITION BY company ORDER BY fare DESC) = 1
=== dynamic-filter table
WITH max_fare AS (SELECT max(fare) AS max FROM taxi_trips)
SELECT company, id FROM taxi_trips, max_fare WHERE fare > max - 5;
--- duckdb
SELECT company, id FROM taxi WHERE fare > (SELECT max(fare) FROM taxi) - 5
=== unnamed-columns table
SELECT company, count(*), sum(fare) + 1, round(avg(distance)::numeric, 1) FROM taxi_trips GROUP BY company;
--- duckdb
SELECT company, count(*), sum(fare) + 1, round(avg(distance), 1) FROM taxi GROUP BY company
=== interval-arithmetic rows
SELECT id, completed_at - INTERVAL '1 second' * duration AS started FROM taxi_trips;
--- duckdb
SELECT id, completed_at - INTERVAL 1 SECOND * duration FROM taxi
=== self-join table
SELECT a.name, b.name AS referred_by FROM users a LEFT JOIN users b ON a.referrer = b.user_id;
--- duckdb
SELECT a.name, b.name FROM users a LEFT JOIN users b ON a.referrer = b.user_id
=== describe-and-show rows
SHOW TABLES;
DESCRIBE orders;
SELECT order_id FROM orders WHERE amount > 6;
--- duckdb
SELECT order_id FROM orders WHERE amount > 6
=== jsonb-operators rows
WITH j AS (SELECT order_id, jsonb_build_object('p', product, 'n', jsonb_build_array(amount, 2)) AS doc FROM orders)
SELECT order_id, doc ->> 'p' AS p, doc::jsonb #>> '{n,0}' AS n, doc -> 'n' AS l FROM j;
--- duckdb
SELECT order_id, product, amount::VARCHAR, '[' || amount || ',2]' FROM orders
=== array-functions rows
SELECT order_id, array_length(ARRAY[amount, 1], 1) AS n, array_cat(ARRAY[amount], ARRAY[2]) AS c, array_append(ARRAY[amount], 5) AS a, array_position(ARRAY[amount, 9], 9) AS p, array_to_string(ARRAY[product, category], '-') AS s, array_remove(ARRAY[amount, 2], 2) AS r FROM orders;
--- duckdb
SELECT order_id, 2, [amount, 2], [amount, 5], list_position([amount, 9], 9), product || '-' || category, list_filter([amount, 2], lambda x: x <> 2) FROM orders
=== date-bin rows
SELECT order_id, date_bin(INTERVAL '7 minutes', ts, TIMESTAMP '2026-01-01 10:00:00') AS b FROM orders;
--- duckdb
SELECT order_id, time_bucket(INTERVAL '7 minutes', ts, TIMESTAMP '2026-01-01 10:00:00') FROM orders
=== partition-average table
SELECT order_id, customer, amount, avg(price) OVER (PARTITION BY customer) AS a, count(*) OVER () AS n FROM orders;
--- duckdb
SELECT order_id, customer, amount, avg(price) OVER (PARTITION BY customer), count(*) OVER () FROM orders
=== lead-lag-gap table
SELECT order_id, lead(price) OVER (PARTITION BY customer ORDER BY ts) - price AS gap FROM orders;
--- duckdb
SELECT order_id, lead(price) OVER (PARTITION BY customer ORDER BY ts) - price FROM orders
