-- Delays of departures from New York in 2013 by airport and visibility: examples/flights.py in SQL.
-- examples/flights.py makes the two files and prints their folder:
--   jobmanager sql examples/flights.sql --set data="$(python examples/flights.py --inputs)"

CREATE STREAM flights WITH (
    path = '${data}/flights.parquet',
    vs = time_hour + minute * INTERVAL '1 minute',
    delay = '22 hours'
);

CREATE STREAM weather WITH (
    path = '${data}/weather.parquet', vs = time_hour, ve = INTERVAL '1 hour'
);

SELECT
    f.origin,
    CASE WHEN w.visib < 3 THEN 'poor' ELSE 'good' END AS sky,
    count(*) AS flights,
    sum(CASE WHEN f.dep_delay IS NULL THEN 1 ELSE 0 END) AS cancelled,
    avg(f.dep_delay) AS mean_delay,
    max(f.dep_delay) AS max_delay
FROM flights AS f
JOIN weather AS w ON f.origin = w.origin
GROUP BY f.origin, sky, HOP('24 hours', '6 hours');
