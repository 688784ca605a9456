"""Calls of functions of Spark SQL over the columns of :mod:`tests.support.catalogue.drawn`.

Calls of times and texts without columns have one value for all rows.
"""

from __future__ import annotations

_WRITTEN = r"""
abs(i); abs(f); acos(f); asin(f); atan(f); atan2(f, g); cos(f); cosh(g); sin(f); sinh(g); tan(g);
tanh(f); cbrt(f); ceil(f); floor(f); round(f, 1); round(i, -1); round(f); sqrt(f); exp(g); ln(f);
log(f); log(g, f); log10(f); log2(f); log1p(f); expm1(g); power(g, j); pow(j, 2); degrees(f);
radians(f); sign(f); signum(f); sign(i); factorial(j); greatest(i, j); greatest(f, g);
least(i, j); least(f, g); greatest(s, p); mod(j, 3); pmod(i, j); i % j; i DIV j; i / j; f / g;
f % g; i + j; i - j; i * j; -i; f + g; f * g; f = g; f < g; f <> g; f >= g; s < p; b AND f > 1;
NOT b; i & j; i | j; i ^ j; ~i; shiftleft(i, 3); shiftright(i, 2); bit_count(i); hex(i); bin(i);
negative(i); positive(i); nullif(i, j); nvl(i, j); nvl2(s, p, s); coalesce(i, j, 1);
ifnull(i, j); if(b, i, j); isnan(f); isnull(f); isnotnull(s); nanvl(f, g);
width_bucket(f, 0, 10, 5); zeroifnull(i); nullifzero(i); equal_null(i, j); i <=> j; f <=> g;
try_divide(i, j); ascii(s); char_length(s); length(s); lower(s); upper(s); lcase(s); ucase(s);
initcap(s); concat(s, p); concat_ws(',', s, p); s || p; contains(s, p); endswith(s, p);
startswith(s, p); instr(s, p); locate(p, s); locate(p, s, 2); position(p, s); position(p IN s);
left(s, j); right(s, j); left(s, 2); right(s, 2); lpad(s, 5, 'xy'); rpad(s, 5, 'xy');
lpad(s, j, p); ltrim(s); rtrim(s); trim(s); btrim(s); btrim(s, 'a'); trim(BOTH 'a' FROM s);
ltrim('a', s); md5(s); sha1(s); sha(s); sha2(s, 256); sha2(s, 512); crc32(s); base64(s);
octet_length(s); bit_length(s); repeat(s, j); replace(s, p, '#'); replace(s, 'a'); reverse(s);
soundex(s); space(j); split(s, ','); split(s, p); split_part(s, ',', 1); split_part(s, ',', -1);
split_part(s, p, 2); substring(s, j); substring(s, j, 2); substr(s, j, 2);
substring(s FROM 2 FOR 2); substring_index(s, ',', 2); substring_index(s, ',', -1);
translate(s, 'ab', 'x'); levenshtein(s, p); overlay(s PLACING '#' FROM 2); chr(j); char(i);
elt(j, s, p); find_in_set(p, s); regexp_extract(s, '([a-z])', 1); regexp_extract(s, '[a-z]+', 0);
regexp_replace(s, '[a-z]', '#'); regexp_replace(s, '([a-z])', '<$1>'); regexp_like(s, 'a');
s RLIKE 'b$'; regexp_count(s, 'a'); regexp_substr(s, '[a-z]+');
regexp_extract_all(s, '([a-z])', 1); regexp_instr(s, 'b'); s LIKE 'a%'; s LIKE p; s ILIKE 'A%';
s NOT LIKE '%b%'; s LIKE '%\\_'; url_encode(s); parse_url('http://a.b/c?x=1', 'HOST');
get_json_object('{"a": 1}', '$.a'); get_json_object(s, '$.a'); json_array_length(p);
json_array_length('[1,2]'); year(d); month(d); day(d); dayofmonth(d); dayofweek(d); weekday(d);
dayofyear(d); quarter(d); weekofyear(d); year(m); month(m); day(m); hour(m); minute(m);
second(m); dayofweek(m); last_day(d); last_day(m); date_add(d, 2); date_sub(d, 3);
datediff(d, DATE '2024-01-01'); date_diff(d, DATE '2024-01-01'); add_months(d, 2);
add_months(d, j); months_between(m, TIMESTAMP '2024-01-31 00:00:00'); next_day(d, 'MO');
trunc(d, 'MM'); trunc(d, 'YEAR'); trunc(d, 'WEEK'); trunc(d, 'QUARTER'); date_trunc('day', m);
date_trunc('week', m); date_trunc('month', m); date_trunc('hour', m); date_trunc('year', m);
date_trunc('quarter', m); date_format(m, 'yyyy-MM-dd HH:mm:ss'); date_format(d, 'dd/MM/yy');
date_format(m, 'EEE'); unix_timestamp(m); unix_seconds(m); unix_millis(m); unix_micros(m);
unix_date(d); make_date(2024, j, 1); to_date(m); to_date('2024-01-05'); timestamp_seconds(j);
timestamp_millis(j); timestamp_micros(i); from_unixtime(j); extract(DAY FROM m);
extract(WEEK FROM d); extract(DOW FROM d); date_part('year', m); date_part('doy', d); dayname(d);
monthname(d); datepart('month', d); m + INTERVAL '1' DAY; d + INTERVAL '1' MONTH;
m - INTERVAL '2' HOUR; d - DATE '2024-01-01';
timestampdiff(DAY, m, TIMESTAMP '2024-01-01 00:00:00');
timestampdiff(MONTH, m, TIMESTAMP '2024-01-01 00:00:00'); timestampadd(DAY, 2, m);
to_timestamp('2024-01-05 10:00:00'); from_utc_timestamp(m, 'Asia/Tokyo');
to_utc_timestamp(m, 'Asia/Tokyo'); size(l); cardinality(l); array_size(l); array_contains(l, j);
array_position(l, 2); array_max(l); array_min(l); array_max(t); array_sort(l); sort_array(l);
sort_array(l, false); array_distinct(l); reverse(l); array_join(t, ','); array_join(t, ',', 'x');
slice(l, 1, 2); slice(l, -2, 2); element_at(l, 1); element_at(l, -1); try_element_at(l, 4); l[0];
array_append(l, j); array_prepend(l, j); array_union(l, array(1, 9));
array_intersect(l, array(1, 2)); array_except(l, array(1)); arrays_overlap(l, array(1, 9));
array_remove(l, 2); array_compact(l); array_repeat(i, 2); concat(l, l); array(i, j); get(l, 1);
array_insert(l, 1, j); exists(l, x -> x > 2); transform(l, x -> x + 1); filter(l, x -> x > 1);
aggregate(l, 0L, (a, x) -> a + x); reduce(l, 0L, (a, x) -> a + x); forall(l, x -> x > 0);
zip_with(l, l, (x, y) -> x + y); sequence(1, 3); flatten(array(l, l)); CAST(f AS BIGINT);
CAST(f AS INT); CAST(g AS INT); CAST(s AS INT); CAST(s AS DOUBLE); CAST(s AS BOOLEAN);
CAST(i AS STRING); CAST(f AS STRING); CAST(g AS STRING); CAST(m AS DATE); CAST(b AS STRING);
CAST(b AS INT); CAST(d AS STRING); CAST(m AS STRING); CAST(i AS INT); CAST(i AS SMALLINT);
CAST(i AS DOUBLE); CAST(i AS DECIMAL(20,2)); CAST(g AS DECIMAL(10,2)); CAST(i AS BOOLEAN);
CAST(f AS BOOLEAN); CAST(d AS TIMESTAMP); CAST(m AS BIGINT); CAST(m AS DOUBLE);
TRY_CAST(s AS INT); TRY_CAST(s AS DATE); CAST(j AS BIGINT); i IN (1, 2, NULL); i NOT IN (1, 2);
i BETWEEN j AND 10; CASE WHEN i > 0 THEN 'a' WHEN i < 0 THEN 'b' END;
decode(i, 1, 'x', 7, 'y', 'z'); struct(i, j); named_struct('a', i, 'b', s);
date_add(d, CAST(j AS INT)); upper(p); lower(upper(s)); CAST(f / 3 AS STRING);
CAST(CAST(f AS FLOAT) AS STRING); CAST(g * 1000000 AS STRING); chr(i); ceil(g); floor(g / 3);
i % 7; try_divide(j, i); map_from_arrays(array(coalesce(i, 0)), array(s)); size(split(s, ','));
crc32(p); url_encode(p); trim(BOTH p FROM s); rpad(s, j, p); ltrim(p, s); i DIV 3; j DIV i;
character_length(p); regexp(s, 'a'); rlike(s, 'b'); url_decode(url_encode(s));
TRY_CAST(s AS BIGINT); CAST(p AS BOOLEAN)
"""
CALLS = [call.strip() for call in _WRITTEN.replace("\n", " ").split("; ")]
