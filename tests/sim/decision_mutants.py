"""Planted bugs in decisions of the job manager: one changed line of production code each.

See :mod:`tests.sim.mutants`. Faults with chosen moments reveal them (``moments``).
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from jobmanager.manager import collection, damage, hosts, instances, joining, takeover
from jobmanager.state import low_water_marks, placement, recovery
from streamscope.testing.simulation.faults.moments import MOMENTS
from tests.sim.planting import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


FAULTS = (*(f.__name__ for f in MOMENTS), "crash_joining", "straggler", "zombie", "second_attempt")


def line(
    name: str,
    module: ModuleType,
    function: str,
    old: str,
    new: str,
    faults: tuple[str, ...] = FAULTS,
) -> Callable[[], Mutant]:
    """A mutant in whose ``function`` the text ``old`` becomes ``new``, in all importing modules."""

    def make() -> Mutant:
        original = getattr(module, function)
        source = textwrap.dedent(inspect.getsource(original))
        assert source.count(old) == 1, f"{name}: {old!r} is not once in {function}"
        found: dict[str, Any] = {}
        changed = ast.parse("from __future__ import annotations\n" + source.replace(old, new))
        exec(compile(changed, f"<{name}>", "exec"), vars(module), found)
        users = [
            user
            for key, user in sorted(sys.modules.items())
            if key.startswith("jobmanager.") and getattr(user, function, None) is original
        ]
        first, *others = users
        more = tuple((user, function, found[function]) for user in others)
        return Mutant(first, function, found[function], faults, more)

    make.__name__ = name
    return make


DECISION_MUTANTS: tuple[Callable[[], Mutant], ...] = (
    line(
        "a_join_keeps_a_dead_source",
        instances,
        "remove",
        "if join.source == instance.epoch:",
        "if join.source == -1:",
    ),
    line("a_replay_counts_as_done", instances, "new_instance", "=ref.reads", "=ref.inputs"),
    line(
        "the_reader_that_restarts_is_where_it_was",
        recovery,
        "_needed",
        "if reader in chosen:",
        "if False:",
    ),
    line(
        "what_was_released_is_there",
        recovery,
        "_is_available",
        "job.released(stream.id) <= seq",
        "True",
    ),
    line("the_drained_leave_too_soon", hosts, "release_drained", "job.is_retired(v.shape.id)", "v"),
    line(
        "two_instances_share_a_slot",
        placement,
        "free_slot",
        "{i.slot for i in vertex.instances} | {j.slot for j in vertex.joins}",
        "{j.slot for j in vertex.joins}",
    ),
    line("a_newcomer_is_not_located", instances, "started", "publish(", "(lambda *_: None)("),
    line("what_a_join_reads_is_not_held", joining, "_ask", "job.now_us, source.consumed", "1, ()"),
    line("turns_are_given_twice", joining, "_checkpoint_slot", "if k not in taken", ""),
    line("a_takeover_forgets_who_ended", takeover, "recall", "].record_end(notice)", "]"),
    line("volatile_outputs_do_not_bind", low_water_marks, "_limit", "None if", "None if True or"),
    line(
        "parts_of_instances_are_not_held",
        instances,
        "named_files",
        "found.update(p for i in vertex.instances for p in i.parts)",
        "pass",
    ),
    line("a_name_is_given_twice", takeover, "recall", "job.take_over()", "pass"),
    line(
        "a_new_instance_has_all_in_memory",
        instances,
        "new_instance",
        "ref.outputs[s.writer.index] for",
        "0 for",
    ),
    line(
        "second_attempts_are_taken",
        hosts,
        "ready",
        " or notice.attempt != 0",
        "",
        ("second_attempt", "crash_host", "slow_network"),
    ),
    line(
        "one_writer_tried_is_all",
        damage,
        "items_lost",
        "all(i.epoch",
        "any(i.epoch",
        ("lost_spill", "straggler"),
    ),
    line(
        "a_twin_replaces_nobody",
        joining,
        "answered",
        "= join.replaces, join",
        "= None, join",
        ("drain",),
    ),
    line(
        "nothing_is_held_for_who_loads",
        collection,
        "_held",
        "names=loading",
        "names=[]",
        ("drain", "straggler"),
    ),
    line(
        "who_lives_does_not_bind",
        collection,
        "_passed",
        "if job.positions(vertex)",
        "if False",
        ("straggler", "crash_host"),
    ),
    line("an_answer_begins_nobody", joining, "answered", "j.source == source]", "False]"),
    line(
        "nobody_says_that_one_had_finished",
        instances,
        "_report_finished",
        "not vertex.is_finished",
        "not vertex",
        ("crash_host", "cut_data", "cut_control"),
    ),
    line(
        "a_twin_has_all",
        joining,
        "_has_all",
        "return False",
        "return True",
        ("drain", "crash_host"),
    ),
)

#: Bugs that the simulation has not detected so far, with the reasons;
#: tests/jobmanager/test_decisions.py does: "computes again before one that serves", "takes no parts
#: along that others name", "that was chosen before its reader is chosen anew".
UNSEEN: tuple[Callable[[], Mutant], ...] = (
    # Any instance may recompute: a busy one is as right as an idle one, only slower.
    line(
        "a_recomputing_writer_is_any",
        instances,
        "_recompute",
        "next((i for i in rows if not job.is_live(i)), rows[-1])",
        "rows[0]",
    ),
    # Not reached in 40 runs of zombie, straggler, drain: the checkpoint of a dead instance must
    # name a part that another instance of its vertex has announced.
    line(
        "a_stale_checkpoint_takes_all_its_parts_along",
        collection,
        "checkpoint_taken",
        "if p not in vertex.parts",
        "",
    ),
    # Needs a writer that was chosen before its second reader: a stage with two readers of which one
    # reads the other (two_exchanges), with volatile streams.
    line(
        "a_writer_that_restarts_provides_all",
        recovery,
        "_is_available",
        "chosen[writer.vertex].outputs[writer.index] <= seq",
        "True",
    ),
    # Like the previous one.
    line(
        "a_restarting_writer_is_not_asked_again",
        recovery,
        "plan_restarts",
        "if writer not in waiting and not",
        "if writer not in waiting and writer not in chosen and not",
    ),
)
