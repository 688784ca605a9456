"""What operators that aggregate by pane share: open panes, which events and rows are in panes.

Invariants: (1) a pane is open as long as it has groups; (2) what is saved are the groups, by
reference, and nothing where no pane is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rvertex.operators.protocol import OperatorState
from rvertex.operators.windows.grouping import Grouping, OpenGroups

if TYPE_CHECKING:
    from rvertex.operators.windows.arithmetic import Windows


class OpenPane:
    """The groups of the last pane that rows came for."""

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping
        self._groups = OpenGroups(grouping)
        #: Its number; None while no pane is open.
        self.number: int | None = None

    def __len__(self) -> int:
        """How many groups it has."""
        return len(self._groups)

    def update(self, number: int, events: pa.RecordBatch) -> None:
        """Fold events of this pane in; another one must have been closed before."""
        assert self.number in (None, number), (self.number, number)
        self.number = number
        self._groups.update(events)

    def is_before(self, number: int) -> bool:
        """Whether a pane is open that lies before this one."""
        return self.number is not None and self.number < number

    def close(self) -> tuple[list[pa.Array], list[pa.Array]]:
        """Its keys and lanes; none is open then."""
        result = self._groups.result()
        self._groups, self.number = OpenGroups(self._grouping), None
        return result

    def snapshot(self, last_cti: int | None) -> OperatorState:
        """The state of an operator that has nothing but an open pane and its last CTI."""
        header = {"pane": self.number, "last_cti": last_cti}
        return OperatorState(header, {} if self.number is None else self._groups.save())

    def load(self, state: OperatorState) -> int | None:
        """Continue with the pane of ``state``; returns the last CTI."""
        self._groups, self.number = OpenGroups(self._grouping), state.header["pane"]
        if self.number is not None:
            self._groups.restore(state.tables)
        last_cti: int | None = state.header["last_cti"]
        return last_cti


class OpenPanes:
    """The groups of every pane that rows came for, where they come in any order."""

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping
        self._groups: dict[int, OpenGroups] = {}

    def numbers(self) -> list[int]:
        """Those of the open panes, ascending."""
        return sorted(self._groups)

    def update(self, number: int, events: pa.RecordBatch) -> None:
        """Fold events of this pane in."""
        groups = self._groups.get(number)
        if groups is None:
            groups = self._groups[number] = OpenGroups(self._grouping)
        groups.update(events)

    def close_before(self, number: int) -> list[tuple[np.ndarray, list[pa.Array], list[pa.Array]]]:
        """Of each pane before this one, by number: that of each group int64[n], keys and lanes."""
        closed = []
        for pane in [pane for pane in self.numbers() if pane < number]:
            groups = self._groups.pop(pane)
            closed.append((np.full(len(groups), pane), *groups.result()))
        return closed

    def snapshot(self, last_cti: int | None) -> OperatorState:
        """The state of an operator that has nothing but open panes and its last CTI."""
        panes = self.numbers()
        tables = {
            f"{i}.{name}": table
            for i, pane in enumerate(panes)
            for name, table in self._groups[pane].save().items()
        }
        return OperatorState({"panes": panes, "last_cti": last_cti}, tables)

    def load(self, state: OperatorState) -> int | None:
        """Continue with the panes of ``state``; returns the last CTI."""
        self._groups = {}
        for i, pane in enumerate(state.header["panes"]):
            groups = self._groups[pane] = OpenGroups(self._grouping)
            mine = (name for name in state.tables if name.partition(".")[0] == str(i))
            groups.restore({name.partition(".")[2]: state.tables[name] for name in mine})
        last_cti: int | None = state.header["last_cti"]
        return last_cti


def in_windows(windows: Windows, events: pa.RecordBatch, *, in_order: bool) -> pa.RecordBatch:
    """Those of point events that lie in any window; ``in_order``: they come by ``vs``."""
    vs = int64_column(events, VS)
    if len(vs) == 0:
        return events
    least, greatest = (vs[0], vs[-1]) if in_order else (vs.min(), vs.max())
    inside = windows.holds(vs, int(least), int(greatest))
    return events if inside is None else events.filter(pa.array(inside))


def rows_of_panes(
    panes: Windows,
    numbers: np.ndarray,
    keys: list[pa.Array],
    lanes: list[pa.Array],
    schema: pa.Schema,
) -> pa.RecordBatch:
    """Partial rows that live as long as the panes of these numbers int64[n]."""
    start = panes.start(numbers)
    columns = [pa.array(start), pa.array(start + panes.size), *keys, *lanes]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
