CREATE STREAM payments (pid INT KEY, account VARCHAR, amount DOUBLE, currency VARCHAR, status VARCHAR, ptime TIMESTAMP)
  WITH (KAFKA_TOPIC='payments', PATH='${data}/payments.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='ptime', PARTITIONS=1);
CREATE STREAM fills (fid INT KEY, pid INT, venue VARCHAR, ftime TIMESTAMP)
  WITH (PATH='${data}/fills.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='ftime');
CREATE STREAM clicks (user VARCHAR, url VARCHAR, cts TIMESTAMP, tags ARRAY<VARCHAR>, props VARCHAR, geo STRUCT<country VARCHAR, city VARCHAR>)
  WITH (PATH='${data}/clicks.jsonl', VALUE_FORMAT='JSON', TIMESTAMP='cts');
CREATE TABLE fx (currency VARCHAR PRIMARY KEY, rate DOUBLE, valid_from TIMESTAMP)
  WITH (PATH='${data}/fx.csv', VALUE_FORMAT='DELIMITED', TIMESTAMP='valid_from');
=== count-by-key table
CREATE TABLE per_account AS SELECT account, COUNT(*) AS total, SUM(amount) AS amount FROM payments GROUP BY account EMIT CHANGES;
SELECT * FROM per_account WHERE account = 'a1';
--- duckdb
SELECT account, count(*), sum(amount) FROM payments WHERE account = 'a1' GROUP BY account
=== fraud-tumbling rows
CREATE TABLE possible_fraud AS
  SELECT account, COUNT(*) AS attempts FROM payments WINDOW TUMBLING (SIZE 5 MINUTES)
  GROUP BY account HAVING COUNT(*) > 1 EMIT FINAL;
SELECT * FROM possible_fraud EMIT CHANGES;
--- duckdb
SELECT account, epoch_ms(w), epoch_ms(w + INTERVAL 5 MINUTE), n FROM (SELECT account, time_bucket(INTERVAL 5 MINUTE, ptime) w, count(*) n FROM payments GROUP BY ALL HAVING n > 1)
=== hopping-sum rows
SELECT account, WINDOWSTART AS ws, SUM(amount) AS total FROM payments
WINDOW HOPPING (SIZE 10 MINUTES, ADVANCE BY 5 MINUTES) WHERE status = 'ok' GROUP BY account EMIT FINAL;
--- duckdb
SELECT account, epoch_ms(s), sum(amount) FROM payments, (SELECT unnest(generate_series(TIMESTAMP '2026-03-01 07:50:00', TIMESTAMP '2026-03-01 08:30:00', INTERVAL 5 MINUTE)) s) WHERE ptime >= s AND ptime < s + INTERVAL 10 MINUTE AND status = 'ok' GROUP BY account, s
=== session-bounds rows
SELECT user, TIMESTAMPTOSTRING(WINDOWSTART, 'yyyy-MM-dd HH:mm:ss') AS session_start, COUNT(*) AS clicks
FROM clicks WINDOW SESSION (30 MINUTES) GROUP BY user EMIT FINAL;
--- duckdb
VALUES ('bob', '2026-03-01 09:10:00', 1), ('bob', '2026-03-01 10:30:00', 1), ('liz', '2026-03-01 10:00:00', 1), ('liz', '2026-03-01 11:15:00', 1), ('mary', '2026-03-01 09:00:05', 2), ('mary', '2026-03-01 09:59:59', 1)
=== stream-table-join rows
SELECT p.pid, p.amount * fx.rate AS converted FROM payments p LEFT JOIN fx ON p.currency = fx.currency EMIT CHANGES;
--- duckdb
SELECT p.pid, p.amount * r.rate FROM payments p ASOF LEFT JOIN fx r ON p.currency = r.currency AND p.ptime >= r.valid_from
=== stream-stream-join rows
SELECT p.pid AS pid, f.venue FROM payments p INNER JOIN fills f WITHIN 1 MINUTE GRACE PERIOD 1 MINUTE ON p.pid = f.pid EMIT CHANGES;
--- duckdb
SELECT p.pid, f.venue FROM payments p, fills f WHERE p.pid = f.pid AND abs(epoch(f.ftime) - epoch(p.ptime)) <= 60
=== left-join-within rows
SELECT p.pid AS pid, f.fid FROM payments p LEFT JOIN fills f WITHIN (0 SECONDS, 2 MINUTES) ON p.pid = f.pid EMIT CHANGES;
--- duckdb
SELECT p.pid, f.fid FROM payments p LEFT JOIN fills f ON p.pid = f.pid AND f.ftime >= p.ptime AND f.ftime <= p.ptime + INTERVAL 2 MINUTE
=== latest-earliest table
SELECT account, LATEST_BY_OFFSET(status) AS last, EARLIEST_BY_OFFSET(status) AS first, LATEST_BY_OFFSET(pid, 2) AS two
FROM payments GROUP BY account EMIT CHANGES;
--- duckdb
SELECT account, max_by(status, ptime), min_by(status, ptime), list(pid ORDER BY ptime)[-2:] FROM payments GROUP BY account
=== collect-list-set table
SELECT account, COLLECT_LIST(pid) AS l, COUNT_DISTINCT(currency) AS c, TOPK(amount, 2) AS t, HISTOGRAM(status) AS h
FROM payments WHERE account = 'a3' GROUP BY account EMIT CHANGES;
--- duckdb
VALUES ('a3', [4, 8], 1, [7.75, 5.25], [('ok', 1), ('pending', 1)])
=== avg-stddev table
SELECT account, AVG(amount) AS mean, MIN(amount) AS lo, MAX(amount) AS hi, STDDEV_SAMP(amount) AS sd FROM payments GROUP BY account EMIT CHANGES;
--- duckdb
SELECT account, avg(amount), min(amount), max(amount), stddev_samp(amount) FROM payments GROUP BY account
=== explode rows
SELECT user, EXPLODE(tags) AS tag FROM clicks EMIT CHANGES;
--- duckdb
SELECT "user", unnest(tags) FROM clicks
=== struct-deref rows
SELECT user, geo->country AS country, UCASE(geo->city) AS city FROM clicks EMIT CHANGES;
--- duckdb
SELECT "user", geo.country, upper(geo.city) FROM clicks
=== extract-json rows
SELECT user, EXTRACTJSONFIELD(props, '$.os') AS os, CAST(EXTRACTJSONFIELD(props, '$.n') AS INT) AS n FROM clicks WHERE props IS NOT NULL EMIT CHANGES;
--- duckdb
SELECT "user", props ->> '$.os', CAST(props ->> '$.n' AS INT) FROM clicks WHERE props IS NOT NULL
=== string-functions rows
SELECT pid, LCASE(currency) AS lc, LEN(status) AS n, SUBSTRING(status, 1, 2) AS s, CONCAT(account, '_', status) AS c, REPLACE(status, 'ai', 'AI') AS r,
  INSTR(status, 'e') AS i, LPAD(account, 4, 'x') AS lp, INITCAP(status) AS ic, MASK(account) AS mk, SPLIT(status, 'i')[1] AS sp, REGEXP_EXTRACT('([a-z]+)(\d)', account, 2) AS re
FROM payments WHERE pid = 3 EMIT CHANGES;
--- duckdb
VALUES (3, 'eur', 6, 'fa', 'a1_failed', 'fAIled', 5, 'xxa1', 'Failed', 'xn', 'fa', '1')
=== time-functions rows
SELECT pid, FORMAT_TIMESTAMP(ptime, 'yyyy-MM-dd HH:mm') AS f, UNIX_TIMESTAMP(ptime) AS u, TIMESTAMPADD(HOURS, 1, ptime) AS a, PARSE_TIMESTAMP('2026-01-02 03:04', 'yyyy-MM-dd HH:mm') AS p,
  PARSE_DATE('2026/01/02', 'yyyy/MM/dd') AS d
FROM payments WHERE pid = 2 EMIT CHANGES;
--- duckdb
VALUES (2, '2026-03-01 08:00', 1772352020000, TIMESTAMP '2026-03-01 09:00:20', TIMESTAMP '2026-01-02 03:04:00', DATE '2026-01-02')
=== rowtime-filter rows
SELECT pid, ROWTIME AS rt FROM payments WHERE ROWTIME >= '2026-03-01T08:05:00' EMIT CHANGES;
--- duckdb
SELECT pid, epoch_ms(ptime) FROM payments WHERE ptime >= '2026-03-01 08:05:00'
=== case-between rows
SELECT pid, CASE WHEN amount < 10 THEN 'small' WHEN amount BETWEEN 10 AND 99 THEN 'medium' ELSE 'large' END AS size FROM payments WHERE currency LIKE 'E%' EMIT CHANGES;
--- duckdb
SELECT pid, CASE WHEN amount < 10 THEN 'small' WHEN amount BETWEEN 10 AND 99 THEN 'medium' ELSE 'large' END FROM payments WHERE currency LIKE 'E%'
=== insert-values-merge sink
CREATE STREAM everything (pid INT KEY, what VARCHAR) WITH (PATH='${out}/everything', VALUE_FORMAT='PARQUET');
INSERT INTO everything SELECT pid, status AS what FROM payments EMIT CHANGES;
--- duckdb
SELECT 'everything', pid, status FROM payments
=== partition-by rows
CREATE STREAM rekeyed WITH (KAFKA_TOPIC='rekeyed', PARTITIONS=4) AS SELECT account, pid, amount FROM payments PARTITION BY account EMIT CHANGES;
SELECT account, pid FROM rekeyed EMIT CHANGES;
--- duckdb
SELECT account, pid FROM payments
=== array-functions rows
SELECT user, ARRAY_LENGTH(tags) AS n, ARRAY_CONTAINS(tags, 'eu') AS c, ARRAY_DISTINCT(tags) AS d, ARRAY_JOIN(tags, '-') AS j, SLICE(tags, 1, 2) AS s, ARRAY_MAX(tags) AS m, tags[1] AS f
FROM clicks WHERE user = 'mary' AND ARRAY_LENGTH(tags) > 2 EMIT CHANGES;
--- duckdb
VALUES ('mary', 3, true, ['eu', 'vip'], 'eu-eu-vip', ['eu', 'eu'], 'vip', 'eu')
=== lambdas rows
SELECT user, TRANSFORM(tags, x => UCASE(x)) AS t, FILTER(tags, x => x != 'eu') AS f, REDUCE(tags, 0, (s, x) => s + LEN(x)) AS r FROM clicks WHERE user = 'mary' EMIT CHANGES;
--- duckdb
VALUES ('mary', ['NEW', 'EU'], ['new'], 5), ('mary', [], [], 0), ('mary', ['EU', 'EU', 'VIP'], ['vip'], 7)
=== map-access rows
SELECT pid, MAP('a' := amount, 'b' := 1.5)['b'] AS b, AS_MAP(ARRAY['x'], ARRAY[pid])['x'] AS x, SPLIT_TO_MAP('k=v;z=y', ';', '=')['z'] AS z FROM payments WHERE pid = 1 EMIT CHANGES;
--- duckdb
VALUES (1, 1.5, 1, 'y')
=== url-functions rows
SELECT user, URL_EXTRACT_PATH('http://a.org' + url) AS p, URL_EXTRACT_PARAMETER('http://a.org' + url, 'id') AS id, URL_ENCODE_PARAM('a b') AS e FROM clicks WHERE user = 'bob' EMIT CHANGES;
--- duckdb
VALUES ('bob', '/cart', NULL, 'a+b'), ('bob', '/prod', '3', 'a+b')
=== coalesce-ifnull rows
SELECT pid, IFNULL(currency, 'none') AS c, COALESCE(currency, account) AS d, NULLIF(status, 'ok') AS n, GREATEST(pid, 3) AS g FROM payments WHERE pid IN (3, 4) EMIT CHANGES;
--- duckdb
VALUES (3, 'EUR', 'EUR', 'failed', 3), (4, 'none', 'a3', NULL, 4)
=== table-table-from-table table
CREATE TABLE rates AS SELECT currency, LATEST_BY_OFFSET(rate) AS rate FROM (SELECT * FROM fx) GROUP BY currency EMIT CHANGES;
SELECT currency, rate FROM rates WHERE rate < 1 EMIT CHANGES;
--- duckdb
VALUES ('USD', 0.8)
