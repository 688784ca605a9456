CREATE TABLE Ticker (
  symbol STRING, price INT, tax INT, rowtime TIMESTAMP(3),
  WATERMARK FOR rowtime AS rowtime - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/ticker.csv', 'format' = 'csv');
CREATE TABLE clicks (
  `user` STRING, url STRING, cts TIMESTAMP(3), tags ARRAY<STRING>, props STRING,
  geo ROW<country STRING, city STRING>,
  WATERMARK FOR cts AS cts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/clicks.jsonl', 'format' = 'json');
CREATE TABLE payments (
  pid INT, account STRING, amount DECIMAL(10, 2), currency STRING, status STRING, ptime TIMESTAMP(3),
  WATERMARK FOR ptime AS ptime - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/payments.csv', 'format' = 'csv');
CREATE TABLE fills (
  fid INT, pid INT, venue STRING, ftime TIMESTAMP(3),
  WATERMARK FOR ftime AS ftime
) WITH ('connector' = 'filesystem', 'path' = '${data}/fills.csv', 'format' = 'csv');
CREATE TABLE fx (
  currency STRING, rate DOUBLE, valid_from TIMESTAMP(3),
  PRIMARY KEY (currency) NOT ENFORCED,
  WATERMARK FOR valid_from AS valid_from
) WITH ('connector' = 'filesystem', 'path' = '${data}/fx.csv', 'format' = 'csv');
CREATE TABLE meters (
  meter STRING, kwh DOUBLE, mtime TIMESTAMP_LTZ(3),
  WATERMARK FOR mtime AS mtime - INTERVAL '1' MINUTE
) WITH ('connector' = 'filesystem', 'path' = '${data}/meters.csv', 'format' = 'csv');
=== match-v-shape rows
SELECT *
FROM Ticker
    MATCH_RECOGNIZE (
        PARTITION BY symbol
        ORDER BY rowtime
        MEASURES
            START_ROW.rowtime AS start_tstamp,
            LAST(PRICE_DOWN.rowtime) AS bottom_tstamp,
            LAST(PRICE_UP.rowtime) AS end_tstamp
        ONE ROW PER MATCH
        AFTER MATCH SKIP TO LAST PRICE_UP
        PATTERN (START_ROW PRICE_DOWN+ PRICE_UP)
        DEFINE
            PRICE_DOWN AS
                (LAST(PRICE_DOWN.price, 1) IS NULL AND PRICE_DOWN.price < START_ROW.price) OR
                    PRICE_DOWN.price < LAST(PRICE_DOWN.price, 1),
            PRICE_UP AS
                PRICE_UP.price > LAST(PRICE_DOWN.price, 1)
    ) MR;
--- duckdb
VALUES ('ACME', TIMESTAMP '2026-03-01 10:00:04', TIMESTAMP '2026-03-01 10:00:07', TIMESTAMP '2026-03-01 10:00:08')
=== match-average rows
SELECT *
FROM Ticker
    MATCH_RECOGNIZE (
        PARTITION BY symbol
        ORDER BY rowtime
        MEASURES
            FIRST(A.rowtime) AS start_tstamp,
            LAST(A.rowtime) AS end_tstamp,
            AVG(A.price) AS avgPrice
        ONE ROW PER MATCH
        AFTER MATCH SKIP PAST LAST ROW
        PATTERN (A+ B)
        DEFINE
            A AS AVG(A.price) < 15
    ) MR;
--- duckdb
VALUES ('ACME', TIMESTAMP '2026-03-01 10:00:00', TIMESTAMP '2026-03-01 10:00:01', 14.5), ('ACME', TIMESTAMP '2026-03-01 10:00:07', TIMESTAMP '2026-03-01 10:00:07', 14)
=== match-next-row rows
SELECT *
FROM Ticker
    MATCH_RECOGNIZE (
        PARTITION BY symbol
        ORDER BY rowtime
        MEASURES
            A.price AS first_price, LAST(B.price) AS last_price, COUNT(B.price) AS n
        ONE ROW PER MATCH
        AFTER MATCH SKIP TO NEXT ROW
        PATTERN (A B{2,} C) WITHIN INTERVAL '10' SECOND
        DEFINE
            B AS B.price > COALESCE(LAST(B.price, 1), A.price),
            C AS C.price < LAST(B.price)
    );
--- duckdb
VALUES ('ACME', 12, 25, 4), ('ACME', 17, 25, 3), ('ACME', 19, 25, 2), ('ACME', 14, 25, 2)
=== cumulate-uv rows
SELECT window_start, window_end, COUNT(DISTINCT `user`) AS uv
FROM TABLE(
  CUMULATE(TABLE clicks, DESCRIPTOR(cts), INTERVAL '30' MINUTES, INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
--- duckdb
VALUES (TIMESTAMP '2026-03-01 09:00:00', TIMESTAMP '2026-03-01 09:30:00', 2), (TIMESTAMP '2026-03-01 09:00:00', TIMESTAMP '2026-03-01 10:00:00', 2), (TIMESTAMP '2026-03-01 10:00:00', TIMESTAMP '2026-03-01 10:30:00', 1), (TIMESTAMP '2026-03-01 10:00:00', TIMESTAMP '2026-03-01 11:00:00', 2), (TIMESTAMP '2026-03-01 11:00:00', TIMESTAMP '2026-03-01 11:30:00', 1), (TIMESTAMP '2026-03-01 11:00:00', TIMESTAMP '2026-03-01 12:00:00', 1)
=== session-tvf rows
SELECT `user`, window_start, window_end, COUNT(url) AS cnt
FROM TABLE(SESSION(TABLE clicks PARTITION BY `user`, DESCRIPTOR(cts), INTERVAL '30' MINUTES))
GROUP BY `user`, window_start, window_end;
--- duckdb
WITH a AS (SELECT *, CASE WHEN cts - lag(cts) OVER (PARTITION BY "user" ORDER BY cts) < INTERVAL 30 MINUTE THEN 0 ELSE 1 END n FROM clicks), b AS (SELECT *, sum(n) OVER (PARTITION BY "user" ORDER BY cts) g FROM a) SELECT "user", min(cts), max(cts) + INTERVAL 30 MINUTE, count(url) FROM b GROUP BY "user", g
=== tumble-offset rows
SELECT window_start, SUM(amount) AS total
FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ptime), INTERVAL '5' MINUTES, INTERVAL '2' MINUTES))
GROUP BY window_start, window_end;
--- duckdb
SELECT time_bucket(INTERVAL 5 MINUTE, ptime, INTERVAL 2 MINUTE) w, sum(amount) FROM payments GROUP BY w
=== hop-group-having rows
SELECT account, window_start, window_end, SUM(amount) AS total
FROM TABLE(HOP(TABLE payments, DESCRIPTOR(ptime), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES))
GROUP BY account, window_start, window_end
HAVING SUM(amount) > 100;
--- duckdb
SELECT account, s, s + INTERVAL 10 MINUTE, sum(amount) t FROM payments, (SELECT unnest(generate_series(TIMESTAMP '2026-03-01 07:50:00', TIMESTAMP '2026-03-01 08:30:00', INTERVAL 5 MINUTE)) s) WHERE ptime >= s AND ptime < s + INTERVAL 10 MINUTE GROUP BY account, s HAVING t > 100
=== window-top-n rows
SELECT window_start, account, price, rownum
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rownum
  FROM (
    SELECT window_start, window_end, account, SUM(amount) AS price, COUNT(*) AS cnt
    FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ptime), INTERVAL '5' MINUTES))
    GROUP BY window_start, window_end, account
  )
) WHERE rownum <= 2;
--- duckdb
SELECT w, account, p, row_number() OVER (PARTITION BY w ORDER BY p DESC) r FROM (SELECT time_bucket(INTERVAL 5 MINUTE, ptime) w, account, sum(amount) p FROM payments GROUP BY ALL) QUALIFY r <= 2
=== window-dedup rows
SELECT account, pid, window_start
FROM (
  SELECT account, pid, ptime, window_start, window_end,
    ROW_NUMBER() OVER (PARTITION BY window_start, window_end, account ORDER BY ptime DESC) AS rownum
  FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ptime), INTERVAL '10' MINUTES))
) WHERE rownum <= 1;
--- duckdb
SELECT account, pid, time_bucket(INTERVAL 10 MINUTE, ptime) w FROM payments QUALIFY row_number() OVER (PARTITION BY w, account ORDER BY ptime DESC) = 1
=== window-full-join rows
SELECT L.pid AS lp, R.fid AS rf,
       COALESCE(L.window_start, R.window_start) AS window_start
FROM (SELECT * FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ptime), INTERVAL '5' MINUTES))) L
FULL JOIN (SELECT * FROM TABLE(TUMBLE(TABLE fills, DESCRIPTOR(ftime), INTERVAL '5' MINUTES))) R
ON L.pid = R.pid AND L.window_start = R.window_start AND L.window_end = R.window_end;
--- duckdb
WITH l AS (SELECT *, time_bucket(INTERVAL 5 MINUTE, ptime) w FROM payments), r AS (SELECT *, time_bucket(INTERVAL 5 MINUTE, ftime) w FROM fills) SELECT l.pid, r.fid, coalesce(l.w, r.w) FROM l FULL JOIN r ON l.pid = r.pid AND l.w = r.w
=== window-semi-join rows
SELECT L.pid, L.window_start
FROM (SELECT * FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ptime), INTERVAL '5' MINUTES))) L
WHERE L.pid IN (
  SELECT pid FROM (SELECT * FROM TABLE(TUMBLE(TABLE fills, DESCRIPTOR(ftime), INTERVAL '5' MINUTES))) R
  WHERE L.window_start = R.window_start AND L.window_end = R.window_end);
--- duckdb
SELECT pid, time_bucket(INTERVAL 5 MINUTE, ptime) w FROM payments p WHERE EXISTS (SELECT 1 FROM fills f WHERE f.pid = p.pid AND time_bucket(INTERVAL 5 MINUTE, ftime) = time_bucket(INTERVAL 5 MINUTE, p.ptime))
=== temporal-join-rates rows
SELECT p.pid, p.amount * fx.rate AS yen
FROM payments AS p
LEFT JOIN fx FOR SYSTEM_TIME AS OF p.ptime ON p.currency = fx.currency;
--- duckdb
SELECT p.pid, p.amount * r.rate FROM payments p ASOF LEFT JOIN fx r ON p.currency = r.currency AND p.ptime >= r.valid_from
=== interval-join rows
SELECT p.pid, f.fid FROM payments p, fills f
WHERE p.pid = f.pid AND f.ftime BETWEEN p.ptime AND p.ptime + INTERVAL '1' MINUTE;
--- duckdb
SELECT p.pid, f.fid FROM payments p, fills f WHERE p.pid = f.pid AND f.ftime BETWEEN p.ptime AND p.ptime + INTERVAL '1' MINUTE
=== over-aggregate-range rows
SELECT pid, account, ptime,
  SUM(amount) OVER (
    PARTITION BY account ORDER BY ptime
    RANGE BETWEEN INTERVAL '5' MINUTE PRECEDING AND CURRENT ROW
  ) AS recent_sum
FROM payments;
--- duckdb
SELECT pid, account, ptime, sum(amount) OVER (PARTITION BY account ORDER BY ptime RANGE BETWEEN INTERVAL 5 MINUTE PRECEDING AND CURRENT ROW) FROM payments
=== over-window-clause rows
SELECT pid, account,
  COUNT(*) OVER w AS cnt, AVG(amount) OVER w AS mean
FROM payments
WINDOW w AS (PARTITION BY account ORDER BY ptime ROWS BETWEEN 2 PRECEDING AND CURRENT ROW);
--- duckdb
SELECT pid, account, count(*) OVER w, avg(amount) OVER w FROM payments WINDOW w AS (PARTITION BY account ORDER BY ptime ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
=== cross-join-unnest rows
SELECT `user`, tag
FROM clicks CROSS JOIN UNNEST(tags) AS t (tag);
--- duckdb
SELECT "user", unnest(tags) FROM clicks
=== row-access rows
SELECT `user`, geo.country, UPPER(geo.city) AS city, CARDINALITY(tags) AS n, tags[1] AS first_tag
FROM clicks;
--- duckdb
SELECT "user", geo.country, upper(geo.city), len(tags), tags[1] FROM clicks
=== json-functions rows
SELECT `user`,
  JSON_VALUE(props, '$.os') AS os,
  JSON_VALUE(props, '$.n' RETURNING INTEGER) AS n,
  JSON_EXISTS(props, '$.n') AS has_n,
  props IS JSON AS is_json
FROM clicks WHERE props IS NOT NULL;
--- duckdb
SELECT "user", props ->> '$.os', CAST(props ->> '$.n' AS INT), json_exists(props, '$.n'), true FROM clicks WHERE props IS NOT NULL
=== json-object rows
SELECT pid, JSON_OBJECT('acc' VALUE account, 'cur' VALUE currency NULL ON NULL) AS j
FROM payments WHERE pid IN (1, 4);
--- duckdb
VALUES (1, '{"acc":"a1","cur":"EUR"}'), (4, '{"acc":"a3","cur":null}')
=== string-functions rows
SELECT pid, INITCAP(status) AS s, LPAD(account, 4, '-') AS l, CONCAT_WS('/', account, currency) AS c,
  REGEXP_EXTRACT(account, '([a-z])([0-9])', 2) AS d, TO_BASE64(status) AS b, POSITION('a' IN status) AS p,
  HEX(account) AS h, OVERLAY(status PLACING 'X' FROM 1 FOR 1) AS o
FROM payments WHERE pid < 4;
--- duckdb
VALUES (1, 'Ok', '--a1', 'a1/EUR', '1', 'b2s=', 0, '6131', 'Xk'), (2, 'Ok', '--a2', 'a2/USD', '2', 'b2s=', 0, '6132', 'Xk'), (3, 'Failed', '--a1', 'a1/EUR', '1', 'ZmFpbGVk', 2, '6131', 'Xailed')
=== time-functions rows
SELECT pid, DATE_FORMAT(ptime, 'yyyy-MM-dd HH:mm') AS f, EXTRACT(MINUTE FROM ptime) AS m,
  TIMESTAMPDIFF(SECOND, TIMESTAMP '2026-03-01 08:00:00', ptime) AS secs,
  CAST(ptime AS DATE) AS d, TIMESTAMPADD(HOUR, 2, ptime) AS later, CEIL(ptime TO HOUR) AS up
FROM payments WHERE pid IN (2, 5);
--- duckdb
VALUES (2, '2026-03-01 08:00', 0, 20, DATE '2026-03-01', TIMESTAMP '2026-03-01 10:00:20', TIMESTAMP '2026-03-01 09:00:00'), (5, '2026-03-01 08:04', 4, 299, DATE '2026-03-01', TIMESTAMP '2026-03-01 10:04:59', TIMESTAMP '2026-03-01 09:00:00')
=== case-and-collect table
SELECT account, LISTAGG(status, '|') AS statuses,
  COUNT(*) FILTER (WHERE status = 'ok') AS ok,
  MAX(CASE WHEN currency IS NULL THEN 'none' ELSE currency END) AS cur
FROM payments GROUP BY account;
--- duckdb
SELECT account, string_agg(status, '|' ORDER BY ptime), count(*) FILTER (WHERE status = 'ok'), max(coalesce(currency, 'none')) FROM payments GROUP BY account
=== dedup-last-row table
SELECT account, pid, status FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY account ORDER BY ptime DESC) AS rn FROM payments
) WHERE rn = 1;
--- duckdb
SELECT account, pid, status FROM payments QUALIFY row_number() OVER (PARTITION BY account ORDER BY ptime DESC) = 1
=== ltz-day-windows rows
SET 'table.local-time-zone' = 'Europe/Berlin';
SELECT window_start, window_end, SUM(kwh) AS kwh
FROM TABLE(TUMBLE(TABLE meters, DESCRIPTOR(mtime), INTERVAL '1' DAY))
GROUP BY window_start, window_end;
--- duckdb
SELECT d, d + INTERVAL 1 DAY, sum(kwh) FROM (SELECT date_trunc('day', timezone('Europe/Berlin', timezone('UTC', mtime))) d, kwh FROM meters) GROUP BY d
=== statement-set sink
CREATE TABLE bad (pid INT, account STRING) WITH ('connector' = 'filesystem', 'path' = '${out}/bad', 'format' = 'parquet');
CREATE TABLE big (pid INT, currency STRING) WITH ('connector' = 'filesystem', 'path' = '${out}/big', 'format' = 'parquet');
EXECUTE STATEMENT SET
BEGIN
INSERT INTO bad SELECT pid, account FROM payments WHERE status <> 'ok';
INSERT INTO big SELECT pid, currency FROM payments WHERE amount >= 75;
END;
--- duckdb
SELECT 'bad', pid, account FROM payments WHERE status <> 'ok' UNION ALL SELECT 'big', pid, currency FROM payments WHERE amount >= 75
