CREATE TABLE orders (order_id INT, customer STRING, item STRING, qty INT, price DOUBLE, currency STRING, status STRING, ordered_at TIMESTAMP, WATERMARK FOR ordered_at AS ordered_at - INTERVAL 5 SECONDS) USING csv OPTIONS (path '${data}/orders.csv', header 'true');
CREATE TABLE pays (pay_id STRING, order_id INT, amount DOUBLE, method STRING, paid_at TIMESTAMP, WATERMARK FOR paid_at AS paid_at - INTERVAL 5 SECONDS) USING csv OPTIONS (path '${data}/pays.csv', header 'true');
CREATE TABLE staff (id INT, name STRING, dept STRING, salary INT, boss INT, hired DATE, email STRING) USING csv OPTIONS (path '${data}/staff.csv', header 'true');
CREATE TABLE rates (currency STRING, rate DOUBLE, valid_from TIMESTAMP, WATERMARK FOR valid_from AS valid_from) USING csv OPTIONS (path '${data}/rates.csv', header 'true');
CREATE TABLE logs (host STRING, at TIMESTAMP, codes ARRAY<INT>, tags ARRAY<STRING>, dims STRUCT<cpu: DOUBLE, mem: STRUCT<used: INT, free: INT>>, spans ARRAY<STRUCT<op: STRING, ms: INT>>, raw STRING, WATERMARK FOR at AS at) USING json OPTIONS (path '${data}/logs.jsonl');
=== dealer-grouping-sets table
CREATE TABLE dealer (id INT, city STRING, car_model STRING, quantity INT);
INSERT INTO dealer VALUES
    (100, 'Fremont', 'Honda Civic', 10),
    (100, 'Fremont', 'Honda Accord', 15),
    (200, 'Dublin', 'Honda Civic', 20),
    (300, 'San Jose', 'Honda Civic', 5);
SELECT city, car_model, sum(quantity) AS sum FROM dealer
    GROUP BY GROUPING SETS ((city, car_model), (city), (car_model), ())
    ORDER BY city, car_model;
--- duckdb
SELECT city, car_model, sum(quantity) FROM (VALUES (100, 'Fremont', 'Honda Civic', 10), (100, 'Fremont', 'Honda Accord', 15), (200, 'Dublin', 'Honda Civic', 20), (300, 'San Jose', 'Honda Civic', 5)) t(id, city, car_model, quantity) GROUP BY GROUPING SETS ((city, car_model), (city), (car_model), ())
=== like-predicates table
CREATE TABLE person (id INT, name STRING, age INT);
INSERT INTO person VALUES (100, 'John', 30), (200, 'Mary', NULL), (300, 'Mike', 80), (400, 'Dan', 50), (500, 'Evan_w', 16);
SELECT name FROM person WHERE name LIKE 'M%' OR name RLIKE 'an$' OR name LIKE '%\_%' OR name LIKE ALL ('%o%', 'J%') AND age BETWEEN 10 AND 60;
--- duckdb
VALUES ('John'), ('Mary'), ('Mike'), ('Dan'), ('Evan_w')
=== joins-of-the-page table
CREATE TABLE employee (id INT, name STRING, deptno INT);
INSERT INTO employee VALUES (105, 'Chloe', 5), (103, 'Paul', 3), (101, 'John', 1), (106, 'Amy', 6);
CREATE TABLE department (deptno INT, deptname STRING);
INSERT INTO department VALUES (3, 'Engineering'), (2, 'Sales'), (1, 'Marketing');
SELECT id, name, employee.deptno, deptname FROM employee FULL JOIN department ON employee.deptno = department.deptno;
--- duckdb
VALUES (101, 'John', 1, 'Marketing'), (103, 'Paul', 3, 'Engineering'), (105, 'Chloe', 5, NULL), (106, 'Amy', 6, NULL), (NULL, NULL, NULL, 'Sales')
=== pivot-of-the-page table
CREATE TABLE people (id INT, name STRING, age INT, class INT, address STRING);
INSERT INTO people VALUES (100, 'John', 30, 1, 'Street 1'), (200, 'Mary', NULL, 1, 'Street 2'), (300, 'Mike', 80, 3, 'Street 3'), (400, 'Dan', 50, 4, 'Street 4');
SELECT * FROM people PIVOT (SUM(age) AS a, AVG(class) AS c FOR name IN ('John' AS john, 'Mike' AS mike));
--- duckdb
VALUES (100, 'Street 1', 30, 1, NULL, NULL), (200, 'Street 2', NULL, NULL, NULL, NULL), (300, 'Street 3', NULL, NULL, 80, 3), (400, 'Street 4', NULL, NULL, NULL, NULL)
=== set-operators-of-the-page table
CREATE TEMPORARY VIEW number1(c) AS VALUES (3), (1), (2), (2), (3), (4);
CREATE TEMPORARY VIEW number2(c) AS VALUES (5), (1), (2), (2);
(SELECT c FROM number1) EXCEPT ALL (SELECT c FROM number2)
UNION ALL (SELECT c FROM number1 INTERSECT ALL SELECT c FROM number2);
--- duckdb
VALUES (3), (3), (4), (1), (2), (2)
=== lateral-view-of-the-page table
CREATE TABLE man (id INT, name STRING, age INT, class INT, address STRING);
INSERT INTO man VALUES (100, 'John', 30, 1, 'Street 1'), (200, 'Mary', NULL, 1, 'Street 2');
SELECT c_age, COUNT(1) AS n FROM man LATERAL VIEW EXPLODE(ARRAY(30, 60)) AS c_age LATERAL VIEW EXPLODE(ARRAY(40, 80)) AS d_age GROUP BY c_age;
--- duckdb
VALUES (30, 4), (60, 4)
=== nested-ctes table
WITH t AS (WITH t2 AS (SELECT 1 AS x) SELECT x + 1 AS y FROM t2), u(a, b) AS (SELECT y, y * 2 FROM t)
SELECT a, b, (SELECT max(y) FROM t) AS m FROM u;
--- duckdb
VALUES (2, 4, 2)
=== having-and-count-distinct table
SELECT city, sum(quantity) AS s, count(DISTINCT model) AS d FROM VALUES ('A', 'x', 10), ('A', 'y', 5), ('B', 'x', 2) AS dealer(city, model, quantity) GROUP BY city HAVING max(quantity) > 5 AND city LIKE 'A%';
--- duckdb
VALUES ('A', 15, 2)
=== range-frames table
SELECT name, salary, sum(salary) OVER (ORDER BY salary RANGE BETWEEN 2000 PRECEDING AND CURRENT ROW) AS s, count(*) OVER (PARTITION BY dept) AS n, first_value(name) OVER (PARTITION BY dept ORDER BY hired DESC) AS newest
FROM staff WHERE dept IS NOT NULL;
--- duckdb
SELECT name, salary, sum(salary) OVER (ORDER BY salary RANGE BETWEEN 2000 PRECEDING AND CURRENT ROW), count(*) OVER (PARTITION BY dept), first_value(name) OVER (PARTITION BY dept ORDER BY hired DESC) FROM staff WHERE dept IS NOT NULL
=== double-quoted-and-backticks table
SELECT name AS `full name`, concat("<", dept, ">") AS d, "it's" AS q, 'a\tb' AS t FROM staff WHERE name = "Ada King";
--- duckdb
VALUES ('Ada King', '<eng>', 'it''s', E'a\tb')
=== json-and-get rows
SELECT host, get_json_object(raw, '$.user.langs') AS langs, from_json(raw, 'score DOUBLE').score AS sc, get(from_json(raw, 'user STRUCT<langs: ARRAY<STRING>>').user.langs, 1) AS second_lang, to_json(struct(host, dims.cpu AS cpu)) AS j
FROM logs WHERE host LIKE 'web%' AND raw IS NOT NULL;
--- duckdb
VALUES ('web1', '["de","en"]', 9.5, 'en', '{"host":"web1","cpu":0.5}'), ('web2', '[]', NULL, NULL, '{"host":"web2","cpu":0.9}')
=== session-and-latest rows
SELECT customer, session_window.start AS s, count(*) AS n, max_by(item, qty) AS most FROM orders GROUP BY session_window(ordered_at, '10 minutes'), customer HAVING count(*) > 1;
--- duckdb
VALUES ('ann', '2026-05-04T09:00:00', 2, 'pen'), ('bob', '2026-05-04T09:03:20', 2, 'pen')
=== date-formats rows
SELECT date_format(DATE '2026-05-04', 'EEEE, MMMM d, yyyy') AS a, to_date('2026.05.04', 'yyyy.MM.dd') AS b, to_timestamp('04/05/26 13:05', 'dd/MM/yy HH:mm') AS c, date_format(TIMESTAMP '2026-05-04 13:05:09', 'hh:mm a') AS d, unix_timestamp('2026-05-04 00:00:00') AS e, from_unixtime(1777852800, 'yyyy/MM/dd') AS f, date_add(DATE '2026-05-04', -4) AS g, DATE '2026-05-31' + INTERVAL 1 MONTH AS h, date_trunc('week', TIMESTAMP '2026-05-06 10:00:00') AS i;
--- duckdb
VALUES ('Monday, May 4, 2026', DATE '2026-05-04', TIMESTAMP '2026-05-04 13:05:00', '01:05 PM', 1777852800, '2026/05/04', DATE '2026-04-30', DATE '2026-06-30', TIMESTAMP '2026-05-04 00:00:00')
=== functions-of-maps-third rows
SELECT map_from_entries(array(struct('a', 1), struct('b', 2)))['b'] AS a, map_values(map('x', 1, 'y', 2)) AS b, cardinality(map('a', 1)) AS c, element_at(map('k', host), 'k') AS d, map_contains_key(map('q', 1), 'z') AS e, transform_values(map('a', 2), (k, v) -> v * 10)['a'] AS f, size(map_entries(map(1, 'a'))) AS g
FROM logs WHERE host = 'db1';
--- duckdb
VALUES (2, [1, 2], 1, 'db1', false, 20, 1)
=== insert-select-then-read table
CREATE TABLE students (name VARCHAR(64), address VARCHAR(64), student_id INT) USING PARQUET PARTITIONED BY (student_id);
INSERT INTO students VALUES ('Amy Smith', '123 Park Ave, San Jose', 111111), ('Bob Brown', '456 Taylor St, Cupertino', 222222);
INSERT INTO students (address, name, student_id) VALUES ('Hangzhou, China', 'Kent Yao', 11215016);
SELECT name, split(address, ', ')[1] AS town FROM students WHERE student_id <> 222222;
--- duckdb
VALUES ('Amy Smith', 'San Jose'), ('Kent Yao', 'China')
=== filters-and-lists table
SELECT customer, collect_list(item) FILTER (WHERE status = 'paid') AS paid, array_join(sort_array(collect_set(currency)), '/') AS cur, count(*) FILTER (WHERE qty > 2) AS big, sum(if(status = 'void', 1, 0)) AS voids, concat_ws(',', collect_list(order_id)) AS ids FROM orders WHERE customer <> 'dan' GROUP BY customer;
--- duckdb
VALUES ('ann', ['pen', 'ink', 'pen'], 'EUR', 2, 0, '1,3,6,9'), ('bob', ['pen'], 'USD', 1, 0, '2,5'), ('cat', ['book'], 'GBP', 1, 1, '4,8')
=== numbers-to-text rows
SELECT cast(1.0D AS STRING) AS a, string(12345678.9D) AS b, concat('t=', 2.5D, ';', true) AS c, cast(DATE '2026-05-04' AS STRING) AS d, cast(TIMESTAMP '2026-05-04 01:02:03.5' AS STRING) AS e, format_number(1234.5, 1) AS f, lpad(7, 3, '0') AS g, cast(array(1, 2) AS STRING) AS h, cast('1.5' AS FLOAT) AS i;
--- duckdb
VALUES ('1.0', '1.23456789E7', 't=2.5;true', '2026-05-04', '2026-05-04 01:02:03.5', '1,234.5', '007', '[1, 2]', 1.5)
=== unpivot-two-columns rows
SELECT * FROM VALUES (1, 10, 20, 30), (2, NULL, 5, 6) AS t(id, q1, q2, q3) UNPIVOT (sales FOR quarter IN (q1 AS `Q1`, q2 AS `Q2`, q3 AS `Q3`));
--- duckdb
VALUES (1, 'Q1', 10), (1, 'Q2', 20), (1, 'Q3', 30), (2, 'Q2', 5), (2, 'Q3', 6)
=== json-text-with-more rows
SELECT to_json(named_struct('a', 1)) || '!' AS a, concat('<', to_json(array(1, 2)), '>') AS b;
--- duckdb
VALUES ('{"a":1}!', '<[1,2]>')
=== maps-exploded-and-places rows
SELECT k, v, filter(array(5, 6, 7), (x, i) -> i > 0) AS f FROM (SELECT explode(map('a', 1, 'b', 2)) AS (k, v));
--- duckdb
VALUES ('a', 1, [6, 7]), ('b', 2, [6, 7])
=== sums-that-overflow table
SELECT try_add(2147483647, 1) AS a, try_multiply(9223372036854775807L, 2) AS b, try_subtract(3, 1) AS c, max(struct(x, y)).y AS d, format_number(1234567.891, 2) AS e, conv('ff', 16, 10) AS f FROM VALUES (1, 'p'), (2, 'q') AS t(x, y);
--- duckdb
VALUES (NULL, NULL, 2, 'q', '1,234,567.89', '255')
