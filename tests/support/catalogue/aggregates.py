"""Aggregates, each by key and minute."""

from __future__ import annotations

from tests.support.catalogue.entry import Entry

_TUMBLED = "time_bucket(INTERVAL '60 seconds', ts, TIMESTAMP '1970-01-01')"


def _of(name: str, ours: str, duck: str | None = None, hint: str | None = None) -> Entry:
    listed = "SELECT k, window_start AS a, {} AS v FROM t GROUP BY k, TUMBLE('1 minute')"
    theirs = f"SELECT k, {_TUMBLED} AS a, {duck or ours} AS v FROM t GROUP BY ALL"
    return Entry(name, listed.format(ours), theirs, hint)


ENTRIES = (
    _of("COUNT(*)", "COUNT(*)"),
    _of("COUNT(x)", "COUNT(i)"),
    _of("COUNT(DISTINCT x)", "COUNT(DISTINCT s)"),
    _of("SUM", "SUM(i)"),
    _of("AVG", "AVG(f)"),
    _of("MIN", "MIN(s)"),
    _of("MAX", "MAX(m)"),
    _of("FIRST", "FIRST(n)"),
    _of("LAST", "LAST(n)"),
    _of("FIRST_VALUE", "FIRST_VALUE(n)", "FIRST(n)"),
    _of("LAST_VALUE", "LAST_VALUE(n)", "LAST(n)"),
    _of("ANY_VALUE", "ANY_VALUE(i)"),
    _of("BOOL_AND", "BOOL_AND(p)"),
    _of("BOOL_OR", "BOOL_OR(p)"),
    _of("EVERY", "EVERY(q)", "BOOL_AND(q)"),
    _of("SOME", "SOME(q)", "BOOL_OR(q)"),
    _of("COUNT_IF", "COUNT_IF(i > 0)", "COUNT(*) FILTER (WHERE i > 0)"),
    _of("MAX_BY", "MAX_BY(n, n)"),
    _of("MIN_BY", "MIN_BY(k, n)"),
    _of("VAR_SAMP", "VARIANCE(i)", "VAR_SAMP(i)"),
    _of("VAR_POP", "VAR_POP(i)"),
    _of("STDDEV", "STDDEV(i)"),
    _of("STDDEV_POP", "STDDEV_POP(f)"),
    _of("MEDIAN", "MEDIAN(f)"),
    _of("QUANTILE", "QUANTILE(f, 0.25)", "QUANTILE_CONT(f, 0.25)"),
    _of("PERCENTILE", "PERCENTILE(i, 0.9)", "QUANTILE_CONT(i, 0.9)"),
    _of("PERCENTILE_CONT", "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY i)"),
    _of("PERCENTILE_CONT DESC", "PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY f DESC)"),
    _of("APPROX_COUNT_DISTINCT", "APPROX_COUNT_DISTINCT(k)", "COUNT(DISTINCT k)"),
    _of("PRODUCT", "PRODUCT(g)"),
    _of("FILTER", "SUM(i) FILTER (WHERE p)"),
    _of("expressions of aggregates", "SUM(i) * 2 + COUNT(*)"),
    _of("ARRAY_AGG", "ARRAY_AGG(i)", "ARRAY_AGG(i ORDER BY ts)"),
    _of("COLLECT_LIST", "COLLECT_LIST(s)", "ARRAY_AGG(s ORDER BY ts) FILTER (WHERE s IS NOT NULL)"),
    _of("STRING_AGG", "STRING_AGG(s, '-')", "STRING_AGG(s, '-' ORDER BY ts)"),
    _of("LISTAGG", "LISTAGG(s, ',')", "STRING_AGG(s, ',' ORDER BY ts)"),
    _of("ARRAY_AGG ORDER BY", "ARRAY_AGG(i ORDER BY f DESC, n)"),
    _of("ARRAY_AGG nulls first", "ARRAY_AGG(n ORDER BY s NULLS FIRST, g DESC NULLS FIRST, n)"),
    _of("ARRAY_AGG DISTINCT", "ARRAY_AGG(DISTINCT i ORDER BY i DESC)"),
    _of("ARRAY_AGG FILTER", "ARRAY_AGG(i ORDER BY n) FILTER (WHERE p)"),
    _of(
        "ARRAY_AGG IGNORE NULLS",
        "ARRAY_AGG(s IGNORE NULLS ORDER BY n DESC) FILTER (WHERE q)",
        "ARRAY_AGG(s ORDER BY n DESC) FILTER (WHERE q AND s IS NOT NULL)",
    ),
    _of("LIST", "LIST(w ORDER BY n)"),
    _of(
        "COLLECT_SET",
        "COLLECT_SET(j ORDER BY j)",
        "ARRAY_AGG(DISTINCT j ORDER BY j) FILTER (WHERE j IS NOT NULL)",
    ),
    _of("STRING_AGG ORDER BY", "STRING_AGG(s, '; ' ORDER BY i DESC, n)"),
    _of("STRING_AGG DISTINCT", "STRING_AGG(DISTINCT w, '' ORDER BY w DESC) FILTER (WHERE i > 0)"),
    _of(
        "LISTAGG WITHIN GROUP",
        "LISTAGG(s, '-') WITHIN GROUP (ORDER BY f NULLS FIRST, n)",
        "STRING_AGG(s, '-' ORDER BY f NULLS FIRST, n)",
    ),
    _of("LISTAGG without a separator", "LISTAGG(s)", "STRING_AGG(s, ',' ORDER BY ts)"),
    _of("FIRST ORDER BY", "FIRST(s ORDER BY i, n DESC)"),
    _of("LAST ORDER BY", "LAST(s ORDER BY i NULLS FIRST, f DESC, n)"),
    _of("FIRST FILTER", "FIRST(i) FILTER (WHERE p)", "FIRST(i ORDER BY ts) FILTER (WHERE p)"),
    _of("LAST FILTER", "LAST(s) FILTER (WHERE f > 0)", "LAST(s ORDER BY ts) FILTER (WHERE f > 0)"),
    _of(
        "FIRST IGNORE NULLS",
        "FIRST(s IGNORE NULLS ORDER BY i)",
        "FIRST(s ORDER BY i, ts) FILTER (WHERE s IS NOT NULL)",
    ),
    _of(
        "LAST_VALUE IGNORE NULLS",
        "LAST_VALUE(i) IGNORE NULLS",
        "LAST(i ORDER BY ts) FILTER (WHERE i IS NOT NULL)",
    ),
    _of("FIRST RESPECT NULLS", "FIRST(i) RESPECT NULLS", "FIRST(i ORDER BY ts)"),
    _of("ANY_VALUE ORDER BY", "ANY_VALUE(s ORDER BY n DESC)"),
    _of("PERCENTILE_DISC", "PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY s)"),
    _of("PERCENTILE_DISC DESC", "PERCENTILE_DISC(0.7) WITHIN GROUP (ORDER BY f DESC)"),
    _of("QUANTILE_DISC", "QUANTILE_DISC(d, 0.5) FILTER (WHERE p)"),
    _of("QUANTILE_CONT", "QUANTILE_CONT(j, 0.4)"),
    _of("quantiles as a list", "QUANTILE(f, [0.1, 0.5])", "QUANTILE_CONT(f, [0.1, 0.5])"),
    _of(
        "percentiles as a list",
        "PERCENTILE_DISC(ARRAY[0.1, 1]) WITHIN GROUP (ORDER BY n) FILTER (WHERE q)",
        "QUANTILE_DISC(n, [0.1, 1]) FILTER (WHERE q)",
    ),
    _of("APPROX_QUANTILE", "APPROX_QUANTILE(j, 0.5)", "QUANTILE_DISC(j, 0.5)"),
    _of("PERCENTILE_APPROX", "PERCENTILE_APPROX(j, 0.25, 100)", "QUANTILE_DISC(j, 0.25)"),
    _of("SUM ORDER BY", "SUM(i ORDER BY n)", hint="SUM takes no ORDER BY"),
    _of("SUM IGNORE NULLS", "SUM(i) IGNORE NULLS", hint="leave IGNORE NULLS"),
    _of("DISTINCT by another", "ARRAY_AGG(DISTINCT s ORDER BY n)", hint="only be ordered by"),
    _of("FIRST DISTINCT", "FIRST(DISTINCT s)", hint="DISTINCT is for COUNT"),
    _of("CORR", "CORR(i, j)", "CASE WHEN ISNAN(CORR(i, j)) THEN NULL ELSE CORR(i, j) END"),
    _of("COVAR_SAMP", "COVAR_SAMP(i, g)"),
    _of("COVAR_POP", "COVAR_POP(n, j)"),
    _of("SUM(DISTINCT x)", "SUM(DISTINCT i)"),
    _of("AVG(DISTINCT x)", "AVG(DISTINCT f)"),
    _of("MAX(DISTINCT x)", "MAX(DISTINCT s)"),
    _of("SUM(DISTINCT x) FILTER", "SUM(DISTINCT j) FILTER (WHERE p)"),
    _of(
        "COUNT(DISTINCT x, y)",
        "COUNT(DISTINCT s, i)",
        "COUNT(DISTINCT (s, i)) FILTER (WHERE s IS NOT NULL AND i IS NOT NULL)",
    ),
    _of("MODE", "MODE(i)", "mode(i ORDER BY i)"),
    _of("MODE of text", "MODE() WITHIN GROUP (ORDER BY w)", "mode(w ORDER BY w)"),
    _of(
        "SKEWNESS",
        "ROUND(SKEWNESS(i), 9)",
        """CASE WHEN count(i) > 2 AND max(i) > min(i)
           THEN round(skewness(i) * (count(i) - 2) / sqrt(count(i) * (count(i) - 1)), 9)
           WHEN count(i) = 2 AND max(i) > min(i) THEN 0 END""",
    ),
    _of("KURTOSIS", "KURTOSIS(f)", "CASE WHEN max(f) > min(f) THEN kurtosis_pop(f) END"),
)
