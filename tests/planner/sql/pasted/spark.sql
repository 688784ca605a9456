CREATE TABLE orders (
  order_id BIGINT, customer STRING, product STRING, category STRING, amount INT, price DOUBLE,
  ts TIMESTAMP,
  WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS
) USING csv OPTIONS (path '${data}/orders.csv', header 'true');
CREATE TABLE shipments (
  shipment_id BIGINT, order_id BIGINT, carrier STRING, ship_time TIMESTAMP,
  WATERMARK FOR ship_time AS ship_time - INTERVAL 5 SECONDS
) USING csv OPTIONS (path '${data}/shipments.csv', header 'true');
CREATE TABLE users (user_id BIGINT, name STRING, city STRING, age INT, referrer BIGINT) USING CSV LOCATION '${data}/users.csv';
=== window-function rows
SELECT window(ts, '10 minutes').start AS since, category, count(*) AS cnt
FROM orders GROUP BY window(ts, '10 minutes'), category;
--- duckdb
SELECT time_bucket(INTERVAL '10 minutes', ts) w, category, count(*) FROM orders GROUP BY ALL
=== window-fields rows
SELECT window.start, window.end, sum(amount) AS total
FROM orders GROUP BY window(ts, '10 minutes', '5 minutes');
--- duckdb
SELECT s, s + INTERVAL 10 MINUTE, sum(amount) FROM orders, (SELECT unnest(generate_series(TIMESTAMP '2026-01-01 09:50:00', TIMESTAMP '2026-01-01 10:30:00', INTERVAL 5 MINUTE)) s) WHERE ts >= s AND ts < s + INTERVAL 10 MINUTE GROUP BY s
=== session-window rows
SELECT customer, session_window.start AS since, count(*) AS cnt
FROM orders GROUP BY customer, session_window(ts, '5 minutes');
--- duckdb
WITH a AS (SELECT *, CASE WHEN ts - lag(ts) OVER (PARTITION BY customer ORDER BY ts) < INTERVAL 5 MINUTE THEN 0 ELSE 1 END n FROM orders), b AS (SELECT *, sum(n) OVER (PARTITION BY customer ORDER BY ts) g FROM a) SELECT customer, min(ts), count(*) FROM b GROUP BY customer, g
=== group-by-ordinal table
SELECT city, max(age), count(*) FROM users WHERE age > 20 GROUP BY 1;
--- duckdb
SELECT city, max(age), count(*) FROM users WHERE age > 20 GROUP BY 1
=== case-insensitive table
SELECT City, SUM(Age) AS total FROM Users GROUP BY CITY;
--- duckdb
SELECT city, sum(age) FROM users GROUP BY city
=== order-nulls-first ordered
SELECT name, city FROM users ORDER BY city, name LIMIT 3;
--- duckdb
SELECT name, city FROM users ORDER BY city NULLS FIRST, name LIMIT 3
=== order-nulls-last ordered
SELECT name, city FROM users ORDER BY city DESC NULLS LAST, name LIMIT 3;
--- duckdb
SELECT name, city FROM users ORDER BY city DESC NULLS LAST, name LIMIT 3
=== group-by-all table
SELECT category, product, sum(amount) AS total FROM orders GROUP BY ALL;
--- duckdb
SELECT category, product, sum(amount) FROM orders GROUP BY ALL
=== qualify table
SELECT category, product, amount,
  RANK() OVER (PARTITION BY category ORDER BY amount DESC) AS rank
FROM orders QUALIFY rank = 1;
--- duckdb
SELECT category, product, amount, rank() OVER (PARTITION BY category ORDER BY amount DESC) r FROM orders QUALIFY r = 1
=== pivot table
SELECT * FROM (SELECT customer, category, amount FROM orders)
PIVOT (SUM(amount) FOR category IN ('drinks' AS drinks, 'kitchen' AS kitchen, 'food' AS food));
--- duckdb
SELECT customer, sum(amount) FILTER (WHERE category = 'drinks'), sum(amount) FILTER (WHERE category = 'kitchen'), sum(amount) FILTER (WHERE category = 'food') FROM orders GROUP BY customer
=== unpivot rows
SELECT order_id, what, value FROM (SELECT order_id, CAST(amount AS DOUBLE) AS amount, price FROM orders)
UNPIVOT (value FOR what IN (amount, price));
--- duckdb
SELECT order_id, 'amount', amount FROM orders UNION ALL SELECT order_id, 'price', price FROM orders
=== lateral-view-explode rows
SELECT order_id, letter FROM orders LATERAL VIEW explode(split(category, 'i')) t AS letter WHERE order_id < 4;
--- duckdb
SELECT order_id, unnest(string_split(category, 'i')) FROM orders WHERE order_id < 4
=== stream-join-range rows
SELECT o.order_id, s.carrier FROM orders o LEFT OUTER JOIN shipments s
ON o.order_id = s.order_id AND s.ship_time >= o.ts AND s.ship_time <= o.ts + interval 15 minutes;
--- duckdb
SELECT o.order_id, s.carrier FROM orders o LEFT JOIN shipments s ON o.order_id = s.order_id AND s.ship_time >= o.ts AND s.ship_time <= o.ts + INTERVAL 15 MINUTE
=== static-join rows
SELECT o.order_id, o.customer, u.city FROM orders o JOIN users u ON o.customer = u.name;
--- duckdb
SELECT o.order_id, o.customer, u.city FROM orders o JOIN users u ON o.customer = u.name
=== static-left-join rows
SELECT o.order_id, u.user_id FROM orders o LEFT JOIN users u ON o.customer = u.name;
--- duckdb
SELECT o.order_id, u.user_id FROM orders o LEFT JOIN users u ON o.customer = u.name
=== left-semi-join rows
SELECT order_id FROM orders LEFT SEMI JOIN users ON orders.customer = users.name;
--- duckdb
SELECT order_id FROM orders WHERE customer IN (SELECT name FROM users)
=== left-anti-join rows
SELECT order_id FROM orders LEFT ANTI JOIN users ON orders.customer = users.name;
--- duckdb
SELECT order_id FROM orders WHERE customer NOT IN (SELECT name FROM users)
=== in-null-list table
SELECT name FROM users WHERE user_id NOT IN (SELECT referrer FROM users WHERE referrer IS NOT NULL);
--- duckdb
SELECT name FROM users WHERE user_id NOT IN (SELECT referrer FROM users WHERE referrer IS NOT NULL)
=== scalar-subquery table
SELECT name, age FROM users WHERE age > (SELECT avg(age) FROM users);
--- duckdb
SELECT name, age FROM users WHERE age > (SELECT avg(age) FROM users)
=== correlated-subquery table
SELECT name, age, (SELECT max(u2.age) FROM users u2 WHERE u2.city = u1.city) AS oldest FROM users u1;
--- duckdb
SELECT name, age, (SELECT max(u2.age) FROM users u2 WHERE u2.city = u1.city) FROM users u1
=== lag-over rows
SELECT order_id, customer, amount, LAG(amount, 1, 0) OVER (PARTITION BY customer ORDER BY ts) AS before FROM orders;
--- duckdb
SELECT order_id, customer, amount, lag(amount, 1, 0) OVER (PARTITION BY customer ORDER BY ts) FROM orders
=== ntile-of-table table
SELECT name, ntile(2) OVER (ORDER BY age) AS half FROM users;
--- duckdb
SELECT name, ntile(2) OVER (ORDER BY age) FROM users
=== window-over-partition table
SELECT name, city, age, AVG(age) OVER (PARTITION BY city) AS city_age FROM users;
--- duckdb
SELECT name, city, age, avg(age) OVER (PARTITION BY city) FROM users
=== star-except rows
SELECT * EXCEPT (price, ts, category) FROM orders WHERE amount = 1;
--- duckdb
SELECT order_id, customer, product, amount FROM orders WHERE amount = 1
=== float-division rows
SELECT order_id, amount / 2 AS half, amount DIV 2 AS whole, -amount % 2 AS rest FROM orders;
--- duckdb
SELECT order_id, amount / 2, amount // 2, -amount % 2 FROM orders
=== cast-timestamp-seconds rows
SELECT order_id, CAST(ts AS BIGINT) AS seconds FROM orders WHERE order_id = 1;
--- duckdb
SELECT order_id, CAST(epoch(ts) AS BIGINT) FROM orders WHERE order_id = 1
=== temp-view-and-create-or-replace table
CREATE OR REPLACE TEMPORARY VIEW big_orders AS SELECT * FROM orders WHERE amount >= 3;
SELECT product, count(*) AS n FROM big_orders GROUP BY product HAVING count(*) > 1;
--- duckdb
SELECT product, count(*) FROM orders WHERE amount >= 3 GROUP BY product HAVING count(*) > 1
=== inline-values table
SELECT * FROM VALUES (1, 'a'), (2, 'b') AS data(id, letter);
--- duckdb
SELECT * FROM (VALUES (1, 'a'), (2, 'b'))
=== count-if-and-any table
SELECT count_if(age > 30) AS old, bool_or(city = 'rome') AS any_rome, max_by(name, age) AS oldest FROM users;
--- duckdb
SELECT count(*) FILTER (WHERE age > 30), bool_or(city = 'rome'), max_by(name, age) FROM users
=== struct-and-lists rows
SELECT order_id, named_struct('p', product, 'n', amount) AS s, struct(product, amount AS n) AS t, slice(array(amount, 5, 6), 2, 2) AS sl, sort_array(array(3, amount, 1)) AS so, sort_array(array(3, amount, 1), false) AS sd, exists(array(amount, 1), x -> x > 3) AS ex, forall(array(amount, 4), x -> x > 3) AS fa, arrays_overlap(array(amount), array(1, 2)) AS ov, flatten(array(array(amount), array(amount))) AS fl FROM orders;
--- duckdb
SELECT order_id, {'p': product, 'n': amount}, {'p': product, 'n': amount}, [5, 6], list_sort([3, amount, 1]), list_reverse(list_sort([3, amount, 1])), amount > 3, amount > 3, amount IN (1, 2), [amount, amount] FROM orders
=== date-add-interval rows
SELECT order_id, date_add(ts, INTERVAL 1 DAY) AS d, date_sub(ts, INTERVAL 2 HOUR) AS h FROM orders;
--- duckdb
SELECT order_id, ts + INTERVAL 1 DAY, ts - INTERVAL 2 HOUR FROM orders
=== ranks-of-table rows
SELECT name, city, rank() OVER (PARTITION BY city ORDER BY age) AS r, dense_rank() OVER (PARTITION BY city ORDER BY age) AS d, percent_rank() OVER (PARTITION BY city ORDER BY age) AS p, cume_dist() OVER (PARTITION BY city ORDER BY age) AS c, lead(age) OVER (PARTITION BY city ORDER BY age) AS nx, nth_value(name, 2) OVER (PARTITION BY city ORDER BY age) AS second FROM users;
--- duckdb
SELECT name, city, rank() OVER w, dense_rank() OVER w, percent_rank() OVER w, cume_dist() OVER w, lead(age) OVER w, nth_value(name, 2) OVER w FROM users WINDOW w AS (PARTITION BY city ORDER BY age)
=== qualify-ntile rows
SELECT name FROM users QUALIFY ntile(2) OVER (ORDER BY age, name) = 1;
--- duckdb
SELECT name FROM users QUALIFY ntile(2) OVER (ORDER BY age, name) = 1
=== histogram-of-lists rows
SELECT window.start AS s, collect_list(product) AS ps, array_sort(collect_set(category)) AS cs, bit_or(amount) AS b FROM orders GROUP BY window(ts, '10 minutes');
--- duckdb
SELECT time_bucket(INTERVAL '10 minutes', ts) w, list(product ORDER BY ts), list_sort(list(DISTINCT category)), bit_or(amount) FROM orders GROUP BY w
