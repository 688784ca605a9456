"""Finds where groups begin in rows sorted by group, and computes running values within groups.

``heads`` bool[n] marks the first row of every group; row 0 is marked. All results are int64[n].
"""

from __future__ import annotations

import numpy as np

from rvertex.events.ordering import stable_order


def heads_of(*columns: np.ndarray) -> np.ndarray:
    """Mark the rows in which any of the columns differs from the previous row."""
    heads = np.zeros(len(columns[0]), bool)
    heads[:1] = True
    for column in columns:
        heads[1:] |= column[1:] != column[:-1]
    return heads


def group_start(heads: np.ndarray) -> np.ndarray:
    """Return the first row of each row's group."""
    rows: np.ndarray = np.maximum.accumulate(np.where(heads, np.arange(len(heads)), 0))
    return rows


def running_sum(values: np.ndarray, heads: np.ndarray) -> np.ndarray:
    """Return the sum of the group's values up to and including each row."""
    total = np.cumsum(values)
    start = group_start(heads)
    result: np.ndarray = total - total[start] + values[start]
    return result


def running_max(values: np.ndarray, heads: np.ndarray) -> np.ndarray:
    """Return the greatest of the group's values up to and including each row."""
    if bool(((values[1:] >= values[:-1]) | heads[1:]).all()):
        return values
    order = stable_order(values)
    assert order is not None, "values that decrease are not sorted"
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    # The rank of a value is unique, so group number and rank make one number that never decreases.
    base = np.cumsum(heads) * len(values)
    rank += base
    highest: np.ndarray = values[order[np.maximum.accumulate(rank) - base]]
    return highest


def orbit(first: np.ndarray, follows: np.ndarray) -> np.ndarray:
    """Mark the rows that can be reached from the rows ``first`` by any number of ``follows`` steps.

    ``follows[i]`` is a row after row i, or n if no row follows. O(n log n).
    """
    count = len(first)
    marked = np.append(first, False)
    jump = np.append(follows, count)
    while True:
        reached = jump[np.flatnonzero(marked)]
        marked[count] = True
        if marked[reached].all():
            return marked[:count]
        marked[reached] = True
        jump = jump[jump]
