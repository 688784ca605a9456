-- Alerts per user: the program of figure 1 of the StreamScope paper, in SQL.
-- examples/alerts.py makes the data and prints its folder:
--   jobmanager sql examples/alerts.sql --set data="$(python examples/alerts.py --inputs)"

CREATE STREAM process WITH (
    path = '${data}/process.csv', vs = started, ve = ended
);

CREATE STREAM alert WITH (
    path = '${data}/alert.jsonl', vs = time, delay = '2 seconds'
);

SELECT p.user, count(*) AS alerts, max(a.level) AS worst
FROM alert AS a
JOIN process AS p ON a.pid = p.pid
GROUP BY p.user, HOP('5 seconds', '5 seconds');
