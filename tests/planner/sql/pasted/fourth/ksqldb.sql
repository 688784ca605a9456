CREATE STREAM orders (order_id INT KEY, customer_id INT, product VARCHAR, amount DOUBLE, currency VARCHAR, order_time TIMESTAMP)
  WITH (KAFKA_TOPIC='orders', PATH='${data}/orders.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='order_time', PARTITIONS=1);
CREATE STREAM shipments (id INT KEY, order_id INT, ship_time TIMESTAMP)
  WITH (PATH='${data}/shipments.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='ship_time');
CREATE TABLE rates (currency VARCHAR PRIMARY KEY, rate DOUBLE, update_time TIMESTAMP)
  WITH (PATH='${data}/rates.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='update_time');
CREATE STREAM readings (sensor VARCHAR KEY, temp DOUBLE, ts TIMESTAMP) WITH (PATH='${data}/readings.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='ts');
CREATE STREAM events (id INT KEY, ts TIMESTAMP, tags ARRAY<VARCHAR>, nums ARRAY<INT>, attrs VARCHAR, who STRUCT<name VARCHAR, age INT>, line VARCHAR)
  WITH (PATH='${data}/events.jsonl', VALUE_FORMAT='JSON', TIMESTAMP='ts');
=== quickstart-avg table
CREATE TABLE avg_temps AS
  SELECT sensor, AVG(temp) AS avg, COUNT(*) AS readings FROM readings GROUP BY sensor EMIT CHANGES;
SELECT * FROM avg_temps WHERE avg > 10;
--- duckdb
VALUES ('a', 22, 4)
=== riders-geo-near rows
CREATE STREAM hot AS SELECT sensor, ROUND(temp, 0) AS t, ts FROM readings WHERE temp > 20 EMIT CHANGES;
SELECT sensor, t FROM hot WHERE GEO_DISTANCE(37.4133, -122.1162, 37.4133, -122.1162) <= 5 EMIT CHANGES;
--- duckdb
VALUES ('a', 22), ('a', 25), ('a', 21)
=== tumbling-all-columns rows
SELECT sensor, WINDOWSTART, WINDOWEND, MAX(temp) AS m FROM readings WINDOW TUMBLING (SIZE 5 MINUTES) GROUP BY sensor EMIT FINAL;
--- duckdb
VALUES ('a', 1714557600000, 1714557900000, 25), ('b', 1714557600000, 1714557900000, 7.5), ('a', 1714557900000, 1714558200000, 21), ('b', 1714557900000, 1714558200000, 6)
=== windowed-table-star rows
CREATE TABLE per_sensor WITH (KAFKA_TOPIC='per_sensor', VALUE_FORMAT='JSON') AS
  SELECT sensor, COUNT(*) AS n FROM readings WINDOW TUMBLING (SIZE 5 MINUTES, RETENTION 7 DAYS, GRACE PERIOD 30 MINUTES) GROUP BY sensor EMIT FINAL;
SELECT * FROM per_sensor;
--- duckdb
VALUES ('a', 1714557600000, 1714557900000, 3), ('b', 1714557600000, 1714557900000, 2), ('a', 1714557900000, 1714558200000, 1), ('b', 1714557900000, 1714558200000, 1)
=== enrich-orders rows
CREATE STREAM enriched AS
  SELECT o.order_id AS order_id, o.amount * r.rate AS total, r.currency AS currency
  FROM orders o INNER JOIN rates r ON o.currency = r.currency EMIT CHANGES;
SELECT * FROM enriched EMIT CHANGES;
--- duckdb
SELECT order_id, amount * rate, o.currency FROM orders o ASOF JOIN rates r ON o.currency = r.currency AND order_time >= update_time
=== shipped-orders rows
CREATE STREAM shipped_orders AS
  SELECT o.order_id AS order_id, TIMESTAMPTOSTRING(o.ROWTIME, 'yyyy-MM-dd HH:mm:ss') AS order_ts, s.id AS shipment
  FROM orders o INNER JOIN shipments s WITHIN 7 DAYS GRACE PERIOD 24 HOURS ON o.order_id = s.order_id EMIT CHANGES;
SELECT * FROM shipped_orders;
--- duckdb
VALUES (1, '2024-05-01 10:00:00', 101), (2, '2024-05-01 10:01:30', 102), (3, '2024-05-01 10:04:00', 103), (5, '2024-05-01 10:12:00', 104)
=== explode-tags rows
SELECT id, EXPLODE(tags) AS tag, who->name AS name FROM events EMIT CHANGES;
--- duckdb
VALUES (1, 'a', 'ann'), (1, 'b', 'ann'), (3, 'b', 'cyd'), (3, 'c', 'cyd'), (3, 'b', 'cyd')
=== lambda-transform rows
SELECT id, TRANSFORM(nums, x => x * 5) AS t, FILTER(nums, x => x > 1) AS f, REDUCE(nums, 0, (s, x) => s + x) AS r, ARRAY_LENGTH(nums) AS n, ARRAY_SORT(nums, 'DESC') AS d, nums[1] AS first, nums[-1] AS last FROM events WHERE nums IS NOT NULL EMIT CHANGES;
--- duckdb
VALUES (1, [15, 5, 10], [3, 2], 6, 3, [3, 2, 1], 3, 2), (2, [25], [5], 5, 1, [5], 5, 5)
=== case-and-cast rows
SELECT order_id, CASE WHEN amount < 5 THEN 'small' WHEN amount < 15 THEN 'medium' ELSE 'large' END AS size, CAST(order_id AS VARCHAR) + '-' + product AS label, IFNULL(amount, 0.0) AS a FROM orders WHERE product LIKE '%p%' AND customer_id BETWEEN 7 AND 8 EMIT CHANGES;
--- duckdb
VALUES (1, 'medium', '1-apple', 12.5), (2, 'small', '2-pear', 3), (5, 'medium', '5-apple', 12.5), (6, 'large', '6-pear', 0)
=== struct-map-constructors rows
SELECT id, STRUCT(n := who->name, i := id)->n AS a, MAP('x' := id, 'y' := 2)['x'] AS b, ARRAY[id, 5][2] AS c, AS_MAP(ARRAY['p', 'q'], ARRAY[1, 2])['q'] AS d, JSON_ARRAY_CONTAINS('[1, 2, 3]', 3) AS e, ENTRIES(MAP('k' := 'v'), true)[1]->K AS f FROM events WHERE id = 1 EMIT CHANGES;
--- duckdb
VALUES (1, 'ann', 1, 5, 2, true, 'k')
=== json-items rows
SELECT id, EXTRACTJSONFIELD(attrs, '$.o.x') AS x, JSON_ITEMS('[{"a":1},{"b":2}]') AS it, JSON_KEYS(attrs) AS ks, IS_JSON_STRING(attrs) AS ok, JSON_RECORDS('{"a":1}')['a'] AS r, TO_JSON_STRING(nums) AS j, JSON_CONCAT('{"a":1}', '{"b":2}') AS jc FROM events WHERE id = 1 EMIT CHANGES;
--- duckdb
VALUES (1, 'deep', ['{"a":1}', '{"b":2}'], ['k', 'list', 'o'], true, '1', '[3,1,2]', '{"a":1,"b":2}')
=== having-and-histogram table
SELECT customer_id, COUNT(*) AS n, HISTOGRAM(product)['apple'] AS apples, COLLECT_LIST(product) AS ps, TOPK(amount, 2) AS top, COUNT_DISTINCT(currency) AS c FROM orders GROUP BY customer_id HAVING COUNT(*) > 1 EMIT CHANGES;
--- duckdb
VALUES (7, 3, 1, ['apple', 'fig', 'pear'], [20.0, 12.5], 2), (8, 2, 1, ['pear', 'apple'], [12.5, 3.0], 2)
=== latest-by-source-table table
CREATE TABLE last_temp AS SELECT sensor, LATEST_BY_OFFSET(temp) AS temp, EARLIEST_BY_OFFSET(temp) AS first, LATEST_BY_OFFSET(temp, 2) AS two FROM readings GROUP BY sensor EMIT CHANGES;
SELECT sensor, temp, first, two FROM last_temp WHERE sensor = 'b';
--- duckdb
VALUES ('b', 6, 5, [7.5, 6.0])
=== parse-strings rows
SELECT id, SPLIT(line, ' ')[2] AS verb, REGEXP_EXTRACT('(\d+)-(\d+)', line, 2) AS mon, UCASE(who->name) AS u, LEN(line) AS n, SUBSTRING(line, 1, 4) AS y, REPLACE(line, '/', '.') AS r, MASK('Ab1', '*', '*', '*', NULL) AS m, INSTR(line, 'GET') AS i, CONCAT_WS('-', 'a', 'b') AS c, URL_EXTRACT_PARAMETER('http://x.io/p?a=1&b=2', 'b') AS p, STRINGTOTIMESTAMP('2024-01-01', 'yyyy-MM-dd') AS st FROM events WHERE id = 1;
--- duckdb
VALUES (1, 'GET', '05', 'ANN', 23, '2024', '2024-05-01 GET .a.b?x=1', '***', 12, 'a-b', '2', 1704067200000)
=== define-variable rows
DEFINE low = '12';
DEFINE tbl = 'orders';
SELECT order_id FROM ${tbl} WHERE amount > ${low} EMIT CHANGES;
--- duckdb
VALUES (1), (3), (5)
