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
