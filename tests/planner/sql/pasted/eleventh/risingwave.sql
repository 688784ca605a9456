CREATE SOURCE rides (ride_id INT, driver VARCHAR, city VARCHAR, km DOUBLE PRECISION, fare DOUBLE PRECISION, tip DOUBLE PRECISION, paid_by VARCHAR, picked_at TIMESTAMP, dropped_at TIMESTAMP, WATERMARK FOR picked_at AS picked_at - INTERVAL '10 minutes') WITH (connector = 'filesystem', path = '${data}/rides.csv') FORMAT PLAIN ENCODE CSV;
CREATE TABLE drivers (driver VARCHAR PRIMARY KEY, full_name VARCHAR, rating DOUBLE PRECISION, home VARCHAR, hired DATE) WITH (connector = 'filesystem', path = '${data}/drivers.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE complaints (complaint_id INT, ride_id INT, reason VARCHAR, made_at TIMESTAMP, WATERMARK FOR made_at AS made_at) WITH (connector = 'filesystem', path = '${data}/complaints.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE rates (city VARCHAR, surge DOUBLE PRECISION, since TIMESTAMP, WATERMARK FOR since AS since) WITH (connector = 'filesystem', path = '${data}/rates.csv') FORMAT PLAIN ENCODE CSV;
CREATE SOURCE logs (host VARCHAR, at TIMESTAMP, level VARCHAR, msg VARCHAR, labels VARCHAR[], nums INT[], ctx STRUCT<"user" VARCHAR, geo STRUCT<cc VARCHAR, lat DOUBLE PRECISION>>, doc JSONB, WATERMARK FOR at AS at) WITH (connector = 'filesystem', path = '${data}/logs.jsonl') FORMAT PLAIN ENCODE JSON;
=== taxi-table-insert-tumble rows
CREATE TABLE taxi_trips (id VARCHAR, taxi_id VARCHAR, completed_at TIMESTAMP, distance DOUBLE PRECISION, duration DOUBLE PRECISION);
INSERT INTO taxi_trips VALUES ('1', '1', '2022-07-01 22:00:00', 4, 6), ('2', '1', '2022-07-01 22:01:00', 6, 9), ('3', '2', '2022-07-01 22:02:10', 3, 5), ('4', '1', '2022-07-01 22:03:00', 7, 15);
SELECT window_start, window_end, count(id) AS no_of_trips, sum(distance) AS total_distance FROM TUMBLE (taxi_trips, completed_at, INTERVAL '2 MINUTES') GROUP BY window_start, window_end ORDER BY window_start ASC;
--- duckdb
VALUES (TIMESTAMP '2022-07-01 22:00:00', TIMESTAMP '2022-07-01 22:02:00', 2, 10), (TIMESTAMP '2022-07-01 22:02:00', TIMESTAMP '2022-07-01 22:04:00', 2, 10)
=== customer-orders-left-join table
CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR);
CREATE TABLE buys (buy_id INT PRIMARY KEY, customer_id INT, total DECIMAL);
INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bob'), (3, 'Cy');
INSERT INTO buys (buy_id, customer_id, total) VALUES (10, 1, 99.5), (11, 1, 0.5), (12, 3, 20);
CREATE MATERIALIZED VIEW totals AS SELECT c.name, count(b.buy_id) AS buys, coalesce(sum(b.total), 0) AS total FROM customers c LEFT JOIN buys b ON c.id = b.customer_id GROUP BY c.name;
SELECT * FROM totals ORDER BY name;
--- duckdb
VALUES ('Ann', 2, 100), ('Bob', 0, 0), ('Cy', 1, 20)
=== asof-left-surge rows
SELECT r.ride_id, s.surge FROM rides r ASOF LEFT JOIN rates s ON r.city = s.city AND r.picked_at >= s.since;
--- duckdb
SELECT ride_id, surge FROM rides r ASOF LEFT JOIN rates s ON r.city = s.city AND picked_at >= since
=== process-time-driver rows
SELECT r.ride_id, d.full_name FROM rides r JOIN drivers FOR SYSTEM_TIME AS OF PROCTIME() AS d ON r.driver = d.driver;
--- duckdb
SELECT ride_id, full_name FROM rides JOIN drivers USING (driver)
=== extract-and-interval-functions rows
SELECT ride_id, extract(hour FROM picked_at) AS h, extract(minute FROM dropped_at - picked_at) AS m, date_part('epoch', dropped_at - picked_at) AS s, to_char(dropped_at - picked_at, 'HH24:MI:SS') IS NOT NULL AS t, picked_at - INTERVAL '1 hour' AS before, date_trunc('day', picked_at) AS d, picked_at::timestamptz AT TIME ZONE 'Asia/Shanghai' AS sh, extract(millisecond FROM picked_at) AS ms FROM rides WHERE ride_id = 2;
--- duckdb
SELECT 2, 8, 27, 1650, true, picked_at - INTERVAL 1 HOUR, date_trunc('day', picked_at), picked_at + INTERVAL 8 HOUR, 30000 FROM rides WHERE ride_id = 2
=== sha-and-hex rows
SELECT host, md5('abc') AS m, encode(sha256('abc'::bytea), 'hex') AS s, decode('MTIz', 'base64') AS d, encode('\x313233'::bytea, 'escape') AS e, lower(upper(level)) AS l, split_part(msg, ' ', 2) AS p, regexp_match(msg, '(\d+)ms') AS ms, position('GET' IN msg) AS pos, trim(both 'x' FROM 'xax') AS t, string_to_array('a,b', ',') AS sa FROM logs WHERE host = 'web3';
--- duckdb
SELECT host, md5('abc'), sha256('abc'), '123'::BLOB, '123', 'info', '/items/9', ['5'], 1, 'a', ['a', 'b'] FROM logs WHERE host = 'web3'
=== running-total-frame rows
SELECT ride_id, sum(fare) OVER (PARTITION BY city ORDER BY picked_at ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s3, avg(km) OVER (PARTITION BY city ORDER BY picked_at ROWS 1 PRECEDING) AS a2, row_number() OVER (PARTITION BY city ORDER BY picked_at) AS rn, lag(fare, 2) OVER (PARTITION BY city ORDER BY picked_at) AS l2 FROM rides;
--- duckdb
SELECT ride_id, sum(fare) OVER (PARTITION BY city ORDER BY picked_at ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), avg(km) OVER (PARTITION BY city ORDER BY picked_at ROWS 1 PRECEDING), row_number() OVER (PARTITION BY city ORDER BY picked_at), lag(fare, 2) OVER (PARTITION BY city ORDER BY picked_at) FROM rides
=== except-intersect-sets table
SELECT driver FROM drivers EXCEPT SELECT driver FROM rides UNION ALL SELECT 'x' AS driver;
--- duckdb
VALUES ('d5'), ('x')
