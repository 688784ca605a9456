"""Almost valid SQL: queries of the catalogue with words removed, repeated or mixed."""

from __future__ import annotations

import functools
import re
from random import Random
from typing import TYPE_CHECKING

from tests.support.catalogue import aggregates, over, queries, scalars, windows
from tests.support.catalogue.entry import asked

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORD = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+|<=>|<>|<=|>=|\|\||::|=>|->>|\S")
#: Words that occur seldom or never in the queries of the catalogue.
_MORE = (
    "FOR SYSTEM_TIME AS OF ts", "FETCH FIRST ROW ONLY", "IN ()", "()", "NULL", "''", "'x'", "*",
    "-1", "0", "99999999999999999999", "1e999", "0.5", "DECIMAL(2,5)", "DECIMAL(a)", "ARRAY[]",
    "IS NOT DISTINCT FROM", "WITH TIES", "USING ()", "GROUPING SETS (())", "ROLLUP (k)",
    "CUBE (k)", "OVER ()", "OVER (ORDER BY ts)", "FILTER (WHERE p)", "WITHIN GROUP (ORDER BY n)",
    "EMIT CHANGES", "IGNORE NULLS", "DISTINCT", "ALL", "LATERAL", "UNNEST", "INTERVAL '1' MONTH",
    "AT TIME ZONE 'UTC'", "CASE WHEN p THEN 1 END", "CAST(n AS INT)", "TRY_CAST(s AS DATE)",
    "EXISTS (SELECT 1 FROM u)", "(SELECT MAX(y) FROM u)", "IN (SELECT k FROM u)",
    "> ALL (SELECT y FROM u)", "BETWEEN 1 AND 2", "QUALIFY", "HAVING", "LIMIT 2", "OFFSET 1",
    "ORDER BY n", "GROUP BY k", "WHERE p", "UNION ALL", "EXCEPT", "JOIN u ON t.k = u.k",
    "ASOF JOIN u ON t.ts >= u.ts", "CROSS JOIN u", ", u",
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))", "HOP('2s', '1s')",
    "SESSION('1s')", "WITH a AS (SELECT * FROM t)", "CREATE VIEW a AS", "INSERT INTO a", ";",
    "AS x (y)", "t.k.x", "[1]", "{", "}", "@a", ":a", "?", "$1", "%", "~", "^", "!", "\\", "`",
    '"', "--", "/*",
)  # fmt: skip


@functools.cache
def texts() -> tuple[str, ...]:
    """The valid queries."""
    of_catalogue = (scalars, aggregates, queries, windows, over)
    return tuple(asked(e.ours) for part in of_catalogue for e in part.ENTRIES if e.hint is None)


def mutated(rng: Random) -> str:
    """Return one of the queries, changed in one to four places."""
    words = _WORD.findall(rng.choice(texts()))
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(words))
        match rng.randrange(6):
            case 0:
                del words[at]
            case 1:
                words.insert(at, words[rng.randrange(len(words))])
            case 2:
                words[at] = words[rng.randrange(len(words))]
            case 3:
                words.insert(at, rng.choice(_MORE))
            case 4:
                words[at] = rng.choice(_MORE)
            case _:
                words[at:at] = _part(_WORD.findall(rng.choice(texts())), rng)
        words = words or ["SELECT"]
    return " ".join(words)


def _part(words: list[str], rng: Random) -> list[str]:
    first = rng.randrange(len(words))
    return words[first : first + rng.randrange(1, 9)]


def many(seed: int, count: int) -> Iterator[str]:
    """Return this number of queries."""
    rng = Random(seed)
    return (mutated(rng) for _ in range(count))
