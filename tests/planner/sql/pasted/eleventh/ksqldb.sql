CREATE STREAM rides (ride_id INT KEY, driver VARCHAR, city VARCHAR, km DOUBLE, fare DOUBLE, tip DOUBLE, paid_by VARCHAR, picked_at TIMESTAMP, dropped_at TIMESTAMP)
  WITH (KAFKA_TOPIC='rides', PATH='${data}/rides.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='picked_at', PARTITIONS=1);
CREATE TABLE drivers (driver VARCHAR PRIMARY KEY, full_name VARCHAR, rating DOUBLE, home VARCHAR, hired DATE)
  WITH (KAFKA_TOPIC='drivers', PATH='${data}/drivers.csv', VALUE_FORMAT='DELIMITED');
CREATE STREAM complaints (complaint_id INT KEY, ride_id INT, reason VARCHAR, made_at TIMESTAMP)
  WITH (KAFKA_TOPIC='complaints', PATH='${data}/complaints.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='made_at');
CREATE TABLE rates (city VARCHAR PRIMARY KEY, surge DOUBLE, since TIMESTAMP)
  WITH (KAFKA_TOPIC='rates', PATH='${data}/rates.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='since');
CREATE STREAM logs (host VARCHAR KEY, at TIMESTAMP, level VARCHAR, msg VARCHAR, labels ARRAY<VARCHAR>, nums ARRAY<INT>, ctx STRUCT<user VARCHAR, geo STRUCT<cc VARCHAR, lat DOUBLE>>, doc VARCHAR)
  WITH (KAFKA_TOPIC='logs', PATH='${data}/logs.jsonl', VALUE_FORMAT='JSON', TIMESTAMP='at');
=== movies-ratings-tutorial table
CREATE TABLE movies (id INT PRIMARY KEY, title VARCHAR, release_year INT) WITH (kafka_topic='movies', partitions=1, value_format='avro');
CREATE STREAM ratings (movie_id INT KEY, rating DOUBLE) WITH (kafka_topic='ratings', partitions=1, value_format='avro');
INSERT INTO movies (id, title, release_year) VALUES (294, 'Die Hard', 1998);
INSERT INTO movies (id, title, release_year) VALUES (354, 'Tree of Life', 2011);
INSERT INTO ratings (movie_id, rating) VALUES (294, 8.2);
INSERT INTO ratings (movie_id, rating) VALUES (294, 8.5);
INSERT INTO ratings (movie_id, rating) VALUES (354, 9.9);
CREATE STREAM rated_movies WITH (kafka_topic='rated_movies', value_format='avro') AS SELECT ratings.movie_id AS id, title, rating FROM ratings LEFT JOIN movies ON ratings.movie_id = movies.id;
SELECT id, title, rating FROM rated_movies EMIT CHANGES LIMIT 3;
--- duckdb
VALUES (294, 'Die Hard', 8.2), (294, 'Die Hard', 8.5), (354, 'Tree of Life', 9.9)
=== running-average-table table
CREATE TABLE rating_averages AS SELECT city, SUM(fare) AS total, COUNT(*) AS num, SUM(fare) / COUNT(*) AS avg_sum, ROUND(AVG(fare), 1) AS average FROM rides GROUP BY city EMIT CHANGES;
SELECT * FROM rating_averages WHERE city = 'Oslo' EMIT CHANGES;
--- duckdb
SELECT city, sum(fare), count(*), sum(fare) / count(*), round(avg(fare), 1) FROM rides WHERE city = 'Oslo' GROUP BY city
=== unusual-drops-window rows
CREATE TABLE hot AS SELECT city, WINDOWSTART AS window_start, WINDOWEND AS window_end, COUNT(*) AS n, MAX(fare) AS top FROM rides WINDOW HOPPING (SIZE 2 HOURS, ADVANCE BY 1 HOUR, GRACE PERIOD 10 MINUTES) WHERE paid_by <> 'cash' GROUP BY city HAVING COUNT(*) > 1 EMIT FINAL;
SELECT city, n, top FROM hot EMIT CHANGES;
--- duckdb
SELECT city, count(*) n, max(fare) FROM rides, (SELECT unnest(generate_series(TIMESTAMP '2025-09-01 06:00:00', TIMESTAMP '2025-09-02 01:00:00', INTERVAL 1 HOUR)) s) WHERE paid_by <> 'cash' AND picked_at >= s AND picked_at < s + INTERVAL 2 HOUR GROUP BY city, s HAVING n > 1
=== outer-join-streams rows
SELECT ROWKEY AS k, r.ride_id AS rid, c.complaint_id AS cid FROM rides r FULL OUTER JOIN complaints c WITHIN 1 HOUR ON r.ride_id = c.ride_id WHERE c.reason = 'late' EMIT CHANGES;
--- duckdb
VALUES (2, 2, 501), (99, NULL, 504), (10, 10, 505)
=== concat-and-casts rows
SELECT ride_id, city + '-' + CAST(ride_id AS VARCHAR) AS c, CONCAT(driver, ':', city) AS cc, CAST('12' AS INT) + 1 AS i, CAST(fare AS INT) AS fi, CAST(ride_id AS BIGINT) * 2 AS b, CAST(km AS DECIMAL(6, 1)) AS d, CAST('true' AS BOOLEAN) AS t, UCASE(city) AS u, city = 'Oslo' OR fare > 60 AS o, NOT (km > 5) AS n, fare / 2 AS h, ride_id / 2 AS ih FROM rides WHERE ride_id IN (1, 7) EMIT CHANGES;
--- duckdb
VALUES (1, 'Oslo-1', 'd1:Oslo', 13, 8, 2, 3.2, true, 'OSLO', true, true, 4.25, 0), (7, 'Tromso-7', 'd4:Tromso', 13, 61, 14, 30.5, true, 'TROMSO', true, false, 30.5, 3)
=== struct-in-struct-insert table
CREATE STREAM orders (id INT KEY, customer STRUCT<name VARCHAR, address STRUCT<city VARCHAR, zip INT>>, items ARRAY<STRUCT<sku VARCHAR, qty INT>>) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=1);
INSERT INTO orders (id, customer, items) VALUES (1, STRUCT(name := 'Ann', address := STRUCT(city := 'Oslo', zip := 150)), ARRAY[STRUCT(sku := 'a', qty := 2), STRUCT(sku := 'b', qty := 1)]);
SELECT id, customer->address->city AS city, items[1]->sku AS first_sku, ARRAY_LENGTH(items) AS n, REDUCE(TRANSFORM(items, i => i->qty), 0, (a, b) => a + b) AS total FROM orders EMIT CHANGES;
--- duckdb
VALUES (1, 'Oslo', 'a', 2, 3)
=== count-distinct-histogram table
SELECT paid_by, COUNT_DISTINCT(city) AS cities, COLLECT_SET(city) AS cs, HISTOGRAM(driver) AS h, STDDEV_SAMP(fare) AS sd, EARLIEST_BY_OFFSET(driver) AS first_driver, LATEST_BY_OFFSET(ride_id, 2) AS l2 FROM rides WHERE paid_by = 'app' GROUP BY paid_by EMIT CHANGES;
--- duckdb
SELECT 'app', 2, ['Bergen', 'Tromso'], ['(''d3'', 1)', '(''d4'', 1)'], stddev_samp(fare), 'd3', [4, 7] FROM rides WHERE paid_by = 'app'
=== deserialize-describe-print rows
SET 'auto.offset.reset' = 'earliest';
SHOW STREAMS;
DESCRIBE rides EXTENDED;
CREATE OR REPLACE STREAM cards AS SELECT ride_id, fare FROM rides WHERE paid_by = 'card' PARTITION BY ride_id EMIT CHANGES;
SELECT ride_id, fare FROM cards WHERE fare >= 10 EMIT CHANGES;
--- duckdb
SELECT ride_id, fare FROM rides WHERE paid_by = 'card' AND fare >= 10
