"""The operator harness: one input, cut and restored in every way, must give one output.

:func:`assert_cut_invariant` runs an operator all at once, item by item, at the given cuts and
with ``snapshot`` -> new ``open()`` -> ``load`` between pieces, and compares the outputs item
for item (floats bit for bit). It also checks what every operator owes its reader: events sorted by
``vs``, strictly increasing CTIs that are kept, ``vs < ve``, the schema that was announced, and
snapshots that later processing does not change.

Cannot catch: an answer that is wrong in the same way under every cutting; that is what the naive
evaluators (``tests/support/naive.py``) are for. Source: Jet's and Trill's operator tests.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgpack
import numpy as np
import pyarrow as pa

from rstream.batch import VE, VS, event_schema, int64_column
from rvertex.operators.protocol import Operator, OperatorSpec, OperatorState
from rvertex.run import NO_CTIS, Run, to_items
from tests.support.exact import assert_same_items

if TYPE_CHECKING:
    from collections.abc import Sequence

Ports = list[Run]


@dataclass(frozen=True, slots=True)
class _MergedOrder:
    """Where every item of the ports stands in the merged sequence.

    ``port`` int64[n]: the port of item i, or -1 for a CTI. A prefix of the merged sequence is a
    prefix of each port's events and of the CTIs.
    """

    port: np.ndarray

    def __len__(self) -> int:
        return len(self.port)

    def piece(self, inputs: Sequence[Run], lo: int, hi: int) -> Ports:
        """Items ``[lo, hi)`` of the merged sequence as one run per port."""
        before, inside = self.port[:lo], self.port[lo:hi]
        cti_lo, ctis = int((before < 0).sum()), int((inside < 0).sum())
        pieces = []
        for p, run in enumerate(inputs):
            first, count = int((before == p).sum()), int((inside == p).sum())
            pieces.append(Run(run.events.slice(first, count), run.ctis[cti_lo : cti_lo + ctis]))
        return pieces


def _merged_order(inputs: Sequence[Run]) -> _MergedOrder:
    """The merged sequence: by time, a CTI before the events of its time, then by port and row."""
    times = [inputs[0].ctis, *(int64_column(run.events, VS) for run in inputs)]
    port = np.concatenate([np.full(len(t), p - 1) for p, t in enumerate(times)])
    order = np.lexsort((port, np.concatenate(times)))
    return _MergedOrder(port[order])


def run_cut(
    spec: OperatorSpec,
    inputs: Sequence[Run],
    schemas: Sequence[pa.Schema],
    splits: Sequence[int],
    *,
    restore: bool = False,
) -> list[Run]:
    """Outputs of an operator fed the merged sequence cut at ``splits``, one run per piece.

    ``restore``: between any two pieces the operator is replaced by a new one loaded from its
    snapshot.
    """
    order = _merged_order(inputs)
    cuts = [0, *sorted({s for s in splits if 0 < s < len(order)}), len(order)]
    operator = spec.open(schemas)
    outputs: list[Run] = []
    for lo, hi in itertools.pairwise(cuts):
        if restore:
            operator = _reopened(spec, schemas, operator.snapshot())
        outputs.append(operator.process(order.piece(inputs, lo, hi)))
    return outputs


def _reopened(spec: OperatorSpec, schemas: Sequence[pa.Schema], state: OperatorState) -> Operator:
    """A new operator loaded from ``state`` after a trip through bytes, as a checkpoint makes it."""
    operator = spec.open(schemas)
    operator.load(_through_bytes(state))
    return operator


def _through_bytes(state: OperatorState) -> OperatorState:
    header = msgpack.unpackb(msgpack.packb(state.header), strict_map_key=False)
    tables = {}
    for name, table in state.tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        tables[name] = pa.ipc.open_stream(sink.getvalue()).read_all()
    return OperatorState(header, tables)


def items_of(outputs: Sequence[Run], payload: pa.Schema) -> pa.RecordBatch:
    """The items of consecutive output runs, as they would be written to a stream."""
    empty = to_items(Run(pa.RecordBatch.from_pylist([], schema=event_schema(payload)), NO_CTIS))
    return pa.concat_batches([empty, *(to_items(run) for run in outputs)])


def check_output(outputs: Sequence[Run], payload: pa.Schema) -> None:
    """What an operator owes its reader, over all its output runs in a row."""
    last_vs, last_cti = -(2**63), None
    for run in outputs:
        assert run.events.schema.equals(event_schema(payload)), (
            f"announced {payload}, emitted {run.events.schema}"
        )
        run.events.validate(full=True)
        run.check()
        vs, ve = int64_column(run.events, VS), int64_column(run.events, VE)
        assert (vs < ve).all(), "an event needs _vs < _ve"
        if len(vs):
            assert vs[0] >= last_vs, f"event at {vs[0]} after one at {last_vs}"
            assert last_cti is None or vs[0] >= last_cti, f"event at {vs[0]} after CTI({last_cti})"
            last_vs = int(vs[-1])
        if len(run.ctis):
            assert last_cti is None or run.ctis[0] > last_cti, (run.ctis[0], last_cti)
            last_cti = int(run.ctis[-1])
    items = items_of(outputs, payload)
    whole = pa.concat_batches([run.events for run in outputs]) if outputs else None
    if whole is not None:
        ctis = np.concatenate([run.ctis for run in outputs])
        assert_same_items(items, to_items(Run(whole, ctis)), "pieces are not in normal form")


def assert_cut_invariant(
    spec: OperatorSpec,
    inputs: Sequence[Run],
    input_schemas: Sequence[pa.Schema],
    *splits: Sequence[int],
) -> Run:
    """Run ``spec`` in every way over ``inputs`` and return the one output there must be.

    Args:
        spec: The operator.
        inputs: One whole run per port, all with the same CTIs.
        input_schemas: Payload schema of each port.
        splits: Each a list of cuts in the merged sequence (out of range cuts are ignored).
    """
    for run in inputs[1:]:
        assert np.array_equal(run.ctis, inputs[0].ctis), "ports must carry the same CTIs"
    payload = spec.output_schema(input_schemas)
    whole = run_cut(spec, inputs, input_schemas, ())
    check_output(whole, payload)
    expected = items_of(whole, payload)
    every = range(1, len(_merged_order(inputs)))
    for cuts in (every, *splits):
        for restore in (False, True):
            outputs = run_cut(spec, inputs, input_schemas, cuts, restore=restore)
            check_output(outputs, payload)
            label = f"cut at {list(cuts)}{', restored at each' if restore else ''}"
            assert_same_items(items_of(outputs, payload), expected, label)
    for cuts in splits or ((len(every) // 2,),):
        _assert_snapshots_stay(spec, inputs, input_schemas, cuts)
    return whole[0]


def _assert_snapshots_stay(
    spec: OperatorSpec, inputs: Sequence[Run], schemas: Sequence[pa.Schema], splits: Sequence[int]
) -> None:
    """Snapshots taken on the way, and loaded only at the end, give the same continuation."""
    payload = spec.output_schema(schemas)
    order = _merged_order(inputs)
    cuts = [0, *sorted({s for s in splits if 0 < s < len(order)}), len(order)]
    operator = spec.open(schemas)
    states, outputs = [], []
    for lo, hi in itertools.pairwise(cuts):
        states.append(operator.snapshot())
        outputs.append(operator.process(order.piece(inputs, lo, hi)))
    for k, state in enumerate(states):
        expected = items_of(outputs[k:], payload)
        for load in (_reopened, _shared):
            late = load(spec, schemas, state)
            again = [
                late.process(order.piece(inputs, lo, hi))
                for lo, hi in zip(cuts[k:-1], cuts[k + 1 :], strict=True)
            ]
            label = f"snapshot {k} of cuts {cuts}, {load.__name__}"
            assert_same_items(items_of(again, payload), expected, label)


def _shared(spec: OperatorSpec, schemas: Sequence[pa.Schema], state: OperatorState) -> Operator:
    """A new operator loaded from ``state`` by reference, as a replica in the same host makes it."""
    operator = spec.open(schemas)
    operator.load(state)
    return operator
