"""Planted bugs of deliveries: answers of the destination are not believed or not checked.

See :mod:`tests.sim.mutants`. They run in live jobs with deliveries.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import jobmanager.manager.collection
from jobmanager.delivery.checked_output import CheckedOutput
from jobmanager.delivery.claim import DeliveryClaim
from jobmanager.delivery.output_tap import OutputTap
from jobmanager.delivery.partition_delivery import PartitionDelivery
from jobmanager.state import low_water_marks
from rstream.errors import StoreError
from rvertex.sinks.errors import DeliveryUnknownError, DestinationError
from rvertex.sinks.function import FunctionDestination
from rvertex.sinks.parquet import ParquetDestination
from tests.sim.planting import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.sinks.protocol import DeliveryProgress

LOST = ("lose_answers",)
DEATHS = ("die_in_a_call", "crash_manager", "mine_delivery")
ZOMBIES = ("zombie_delivery", "late_zombie", "second_delivery")

delivered = partial(Mutant, live=True, deliver=True)


def a_position_is_committed_before_its_rows() -> Mutant:
    """Two steps instead of one: a process that dies between them leaves a hole."""
    original_write, original = PartitionDelivery._write, PartitionDelivery._commit

    def write(self: Any, items: Any) -> None:
        self.held = [*getattr(self, "held", []), items]
        self._pending_rows += 1

    def commit(self: Any) -> None:
        original(self)
        held, self.held = getattr(self, "held", []), []
        for items in held:
            original_write(self, items)
        if self._pending_rows:
            original(self)

    def open_again(self: Any) -> None:
        self.held = []
        original_open(self)

    original_open = PartitionDelivery._open
    more = ((PartitionDelivery, "_commit", commit), (PartitionDelivery, "_open", open_again))
    return delivered(PartitionDelivery, "_write", write, (*DEATHS, *LOST), more)


def a_lost_answer_counts_as_a_commit() -> Mutant:
    """The delivery continues after rows that it has not checked."""
    original = PartitionDelivery._commit

    def commit(self: Any) -> None:
        is_unknown = False
        try:
            original(self)
        except DeliveryUnknownError:
            is_unknown = True
        if is_unknown:
            self.believed = self._output.next_seq, self._output.digest
            raise DeliveryUnknownError("planted", "no answer")

    more = ((PartitionDelivery, "_open", _goes_on_where_it_believes()),)
    return delivered(PartitionDelivery, "_commit", commit, LOST, more)


def _goes_on_where_it_believes() -> Any:
    original = PartitionDelivery._open

    def open_again(self: Any) -> None:
        original(self)
        if getattr(self, "believed", None) is not None:
            self._output.seek(*self.believed)
            self.believed = None

    return open_again


def a_lost_answer_counts_as_a_failure() -> Mutant:
    """Rows that arrived are written again."""
    original, original_open = PartitionDelivery._commit, PartitionDelivery._open

    def commit(self: Any) -> None:
        self.known = getattr(self, "known", (0, None))
        original(self)
        self.known = self._output.next_seq, self._output.digest

    def open_again(self: Any) -> None:
        original_open(self)
        if getattr(self, "known", None) is not None:
            self._output.seek(*self.known)

    more = ((PartitionDelivery, "_open", open_again),)
    return delivered(PartitionDelivery, "_commit", commit, LOST, more)


def a_zombie_does_not_look_who_is_newest() -> Mutant:
    """The delivery opens late at a destination that fences only earlier writers, and delivers."""
    return delivered(DeliveryClaim, "is_newest", lambda self: True, ("late_zombie",))


def an_epoch_is_counted_and_not_claimed() -> Mutant:
    """A process uses the next epoch without claiming it, so two may use the same epoch."""

    def take(self: Any, now_us: int) -> int:
        self.epoch += 1
        self._store.put(self._name(self.epoch), b"%d" % now_us)
        return int(self.epoch)

    return delivered(DeliveryClaim, "take", take, (*ZOMBIES, "crash_delivery"))


def a_position_is_noted_before_the_function_is_called() -> Mutant:
    """A crash before the call leaves rows that are never delivered."""

    def commit(self: Any, progress: DeliveryProgress) -> None:
        epoch, batches, first_seq = self._epoch, self._batches, self._first_seq
        if epoch is None:
            raise DestinationError(self._name, "it is not open")
        self.close()
        try:
            self._note(epoch, {"done": [progress.next_seq, progress.digest]})
            self._check_fence(epoch)
        except StoreError as error:
            raise DeliveryUnknownError(self._name, str(error)) from error
        if batches:
            self._call(first_seq, pa.Table.from_batches(batches).combine_chunks().to_batches()[0])
        self._epoch, self._progress = epoch, progress

    return delivered(FunctionDestination, "commit", commit, (*DEATHS, *LOST))


def a_function_is_called_by_the_replaced() -> Mutant:
    """A replaced process also calls the function, so rows arrive again in other batches."""
    more = ((FunctionDestination, "open", _open_without_the_last_call()),)
    return delivered(
        FunctionDestination, "_check_fence", lambda self, epoch: None, (*ZOMBIES, *DEATHS), more
    )


def _open_without_the_last_call() -> Any:
    original = FunctionDestination.open

    def open_again(self: Any, epoch: int) -> DeliveryProgress | None:
        call, self._call = self._call, lambda *args: None
        try:
            return original(self, epoch)
        finally:
            self._call = call

    return open_again


def a_folder_is_not_fenced() -> Mutant:
    """Files are written even if another writer has written one with the same number."""

    def put(self: Any, number: int, data: Any) -> None:
        self._store.put(self._file_name(number), data)

    return delivered(ParquetDestination, "_put", put, (*ZOMBIES, *DEATHS))


def an_old_writer_s_digest_is_added_again() -> Mutant:
    """A delivery whose writer was replaced counts the items that it reads again."""

    def attached(self: Any, seq: int) -> int:
        del seq
        if self.next_seq:
            self._prefix.reach(self.next_seq - 1)
            self._read.add(self._prefix.digest)
            self._is_checked, self._expected = False, None
            return int(self._prefix.seq)
        self._is_checked = True
        return 0

    return delivered(CheckedOutput, "_attached", attached, ("crash_host", "crash_all"))


def items_are_left_out_at_a_new_writer() -> Mutant:
    """A reader that switches instances starts after its position."""
    original = OutputTap._attach

    def attach(self: Any, endpoint: Any) -> None:
        original(self, endpoint)
        if endpoint is not None and self.next_seq:
            self._reader._seq += 1

    return delivered(OutputTap, "_attach", attach, ("crash_host", "crash_all"))


def the_last_commit_is_left_out() -> Mutant:
    """A delivery ends after it has read the items, before they have arrived."""

    def finish(self: Any) -> None:
        self.state = "finished"

    return delivered(PartitionDelivery, "_finish", finish)


def the_output_goes_though_a_delivery_needs_it() -> Mutant:
    """Items after a checkpoint of their writer are collected."""
    original = low_water_marks.low_water_marks

    def marks(topology: Any, tracker: Any, *more: Any) -> Any:
        low = original(topology, tracker, *more)
        behind = {
            stream.id: tracker.newest(name).outputs[stream.writer.index]
            for name, shape in topology.vertices.items()
            for stream in shape.outputs
            if stream.reader is None
        }
        return replace(low, marks={**low.marks, **behind})

    kinds = ("absent_destination", "slow_destination")
    return delivered(jobmanager.manager.collection, "low_water_marks", marks, kinds)


DELIVERY_MUTANTS: tuple[Callable[[], Mutant], ...] = (
    a_position_is_committed_before_its_rows,
    a_lost_answer_counts_as_a_commit,
    a_lost_answer_counts_as_a_failure,
    a_zombie_does_not_look_who_is_newest,
    an_epoch_is_counted_and_not_claimed,
    a_position_is_noted_before_the_function_is_called,
    a_function_is_called_by_the_replaced,
    a_folder_is_not_fenced,
    an_old_writer_s_digest_is_added_again,
    items_are_left_out_at_a_new_writer,
    the_last_commit_is_left_out,
    the_output_goes_though_a_delivery_needs_it,
)
