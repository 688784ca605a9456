"""Compares the plan of a job with that of its next query: which stages keep their states.

Stages are matched by meaning, not by name or number: sources by their path, other stages by their
input stages and their operators. So a query with renamed or reordered stages keeps their states.
The comparison is a pure function of both plans. A user approves it by its hash.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING

from jobmanager.driver.running.changes.snapshots import lossy_stages
from planner.fingerprint import fingerprint
from planner.physical.layout import Stages, chain_of, laid_out
from planner.physical.outputs import numbered
from rstream.items.dictionaries import plain_schema
from rvertex.checkpoint.conversion import pairs_of, words_of_field
from rvertex.checkpoint.value_log import draws_values
from rvertex.sinks.spec import name_of
from rvertex.sources.spec import Checks, Live, SourceKind, Topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.physical.plan import PhysicalPlan, Stage
    from rvertex.sources.spec import SourcePartition
    from rvertex.vertex.spec import VertexSpec

_HASH_DIGITS = 12
#: Fields of a source that follow from its paths and from the columns that the query reads.
_OF_COLUMNS = frozenset({"schema", "columns", "late_schema", "keep", "sorts", "casts", "wanted"})
_OF_PLACES = frozenset(
    {"cti_every_us", "shown", "given", "latest_us", "path", "more_paths", "rows"}
)
#: Rules of a live source.
_OF_LIVE = frozenset(f.name for f in fields(Live)) | {"taken_files", "max_ahead_us"}
#: Further rules of a topic.
_OF_TOPIC = frozenset({"on_bad_row", "config"})
#: Rules of a source that may change while its state stays.
_RULES_OF_SOURCE = frozenset({"delay_us", "late", "rule for idle partitions"})


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome for a stage or a delivery. ``former``: its name in the old plan, if any."""

    stage: str
    former: str
    verdict: str
    reason: str

    def with_output(self, columns: Sequence[str] | None) -> Row:
        """Return the row with the output columns that its stage adds."""
        if not columns:
            return self
        added = f"new output column{'s' if len(columns) > 1 else ''} {', '.join(columns)}"
        return replace(self, reason=f"{self.reason}; {added}" if self.reason else added)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two plans.

    ``plan``: the new plan, in which continued stages keep their layouts. ``refusals``: reasons why
    the change is impossible. ``links``: per new stage, the old stage whose state it continues.
    """

    rows: tuple[Row, ...]
    refusals: tuple[str, ...]
    plan: PhysicalPlan
    links: dict[str, str] = field(default_factory=dict)

    @property
    def refusal(self) -> str:
        """Return all reasons why the change is impossible, and what to do instead."""
        return "; ".join([*self.refusals, "or run the new query in another root"])

    @property
    def hash(self) -> str:
        """Return the hash of the comparison and the new plan, which ``--approve`` takes."""
        rows = [asdict(row) for row in self.rows]
        reasons = json.dumps([rows, self.refusals, self.plan.plan_hash])
        return hashlib.sha256(reasons.encode()).hexdigest()[:_HASH_DIGITS]


class _Plan:
    """A plan, with its vertices grouped by stage."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self.plan = plan
        self.stages = {stage.name: stage for stage in plan.stages}
        self.vertices: dict[str, list[VertexSpec]] = {name: [] for name in self.stages}
        for vertex in plan.vertices:
            self.vertices[vertex.stage].append(replace(vertex, operators=chain_of(vertex)))

    def source(self, stage: str) -> SourcePartition | None:
        return self.vertices[stage][0].source

    def sources(self, stage: str) -> list[SourcePartition]:
        return [v.source for v in self.vertices[stage] if v.source is not None]


def compare(old: PhysicalPlan, new: PhysicalPlan) -> Comparison:
    """Decide for each stage of ``new`` which state of ``old`` it continues."""
    before, after = _Plan(old), _Plan(new)
    links: dict[str, str] = {}
    for stage in _upstream_first(new):
        former = _former(before, after, stage, links)
        if former is not None:
            links[stage.name] = former
    new = _laid_out_like(old, new, links)
    after = _Plan(new)
    columns, lossy = _new_output_columns(old, new), lossy_stages(old, new, links)
    rows = [
        _row(
            before, after, stage.name, links.get(stage.name), lossy.get(stage.name, "")
        ).with_output(columns.get(stage.name))
        for stage in new.stages
    ]
    gone = [name for name in before.stages if name not in links.values()]
    rows += [Row("", name, "dropped", "no stage of the new query continues it") for name in gone]
    rows += _deliveries(old, new)
    refusals = [*_refused_stages(before, after, links), *_refused_output(old, new, links)]
    return Comparison(tuple(rows), tuple(refusals), new, links)


def _laid_out_like(old: PhysicalPlan, new: PhysicalPlan, links: dict[str, str]) -> PhysicalPlan:
    """Return the new plan, in which keyed stages have as many vertices as those they continue."""
    before, after = Stages(old), Stages(new)
    layouts = {}
    for stage in after.keys:
        of_group = [links[m] for m in after.members(stage) if links.get(m) in before.keys]
        if of_group:
            layouts[stage] = before.layout(links.get(stage, of_group[0]))
    changed = {stage: layout for stage, layout in layouts.items() if layout != after.layout(stage)}
    return numbered(laid_out(new, changed) if changed else new, old)


def _upstream_first(plan: PhysicalPlan) -> list[Stage]:
    by_name = {stage.name: stage for stage in plan.stages}
    order = dict.fromkeys(plan.vertex(v).stage for v in plan.topological_order())
    return [by_name[name] for name in order]


def _former(before: _Plan, after: _Plan, stage: Stage, links: dict[str, str]) -> str | None:
    """Return the old stage that a new stage continues, or None. Ties return the first."""
    best: tuple[int, str] | None = None
    for name in before.stages:
        if name in links.values():
            continue
        score = _likeness(before, after, name, stage.name, links)
        if score and (best is None or score > best[0]):
            best = score, name
    return None if best is None else best[1]


def _likeness(before: _Plan, after: _Plan, old: str, new: str, links: dict[str, str]) -> int:
    """Return a score of similarity. 0: the new stage cannot continue the old stage."""
    was, is_now = before.source(old), after.source(new)
    if (was is None) != (is_now is None):
        return 0
    if was is not None and is_now is not None:
        if not _reads_the_same(was, is_now):
            return 0
    elif not _has_linked_inputs(before.stages[old], after.stages[new], links):
        return 0
    score = 1 + (_kind(old) == _kind(new)) + (old == new)
    pairs = pairs_of(before.vertices[old][0], after.vertices[new][0])
    if pairs and was is None and all(pair.old is None for pair in pairs):
        return 0
    return score + sum(4 * (pair.verdict == "kept") + 2 * (pair.old is not None) for pair in pairs)


def _reads_the_same(was: SourcePartition, is_now: SourcePartition) -> bool:
    fields = [(s.spec.format, s.spec.paths, s.spec.live is None) for s in (was, is_now)]
    return fields[0] == fields[1] and was.spec.items == is_now.spec.items


def _source_fields(was: SourcePartition, is_now: SourcePartition) -> set[str]:
    """Return the fields in which two sources differ, except columns and paths."""
    old, new = (_flat(s.spec) for s in (was, is_now))
    changed = {
        name for name in old.keys() | new.keys() if repr(old.get(name)) != repr(new.get(name))
    }
    rules = _OF_LIVE | _OF_TOPIC if isinstance(is_now.spec.kind, Topic) else _OF_LIVE
    if is_now.spec.live is not None and changed & rules:
        changed = {*(changed - rules), "rule for idle partitions"}
    return changed - _OF_COLUMNS - _OF_PLACES


def _flat(record: object) -> dict[str, object]:
    """Return the fields of a source and of the records in it."""
    flat: dict[str, object] = {}
    for f in fields(record):  # type: ignore[arg-type]
        value = getattr(record, f.name)
        flat |= _flat(value) if isinstance(value, SourceKind | Checks | Live) else {f.name: value}
    return flat


def _filters(source: SourcePartition) -> str:
    """Return a value that identifies the filters that the source evaluates."""
    return fingerprint((source.spec.keep, source.spec.wanted))


def _has_linked_inputs(old: Stage, new: Stage, links: dict[str, str]) -> bool:
    own = [(links.get(edge.upstream), edge.port) for edge in new.inputs]
    return own == [(edge.upstream, edge.port) for edge in old.inputs]


def _kind(stage: str) -> str:
    return stage.partition("-")[2]


def _row(before: _Plan, after: _Plan, stage: str, former: str | None, lossy: str) -> Row:
    if former is None:
        source = after.source(stage)
        reason = "a new stage" if source is None else "a new source, read from its start"
        return Row(stage, "", "started empty", reason)
    old, new = before.vertices[former][0], after.vertices[stage][0]
    pairs = pairs_of(old, new, lossy)
    reasons = [pair.reason for pair in pairs if pair.reason]
    if any(pair.verdict == "started empty" for pair in pairs):
        if new.source is not None:
            reasons.append("it continues at its positions in the input")
        return Row(stage, former, "started empty", _text(reasons))
    added = _new_columns(old, new)
    if old.source is not None and new.source is not None:
        rules = sorted(_source_fields(old.source, new.source))
        reasons += [f"another {words_of_field(rule)} after the change" for rule in rules]
        if _filters(old.source) != _filters(new.source):
            reasons.append("another filter after the change")
    if other := _other_types(old.source, new.source, is_read=False):
        reasons.append(f"{', '.join(other)}: another type in late rows after the change")
    if added:
        reasons.append(f"{', '.join(added)}: null in rows that were read before the change")
    is_same = not reasons and all(pair.verdict == "kept" for pair in pairs)
    if is_same and _is_equal(old, new):
        return Row(stage, former, "kept", "")
    return Row(stage, former, "converted", _text(reasons))


def _text(reasons: Sequence[str]) -> str:
    return (
        "; ".join(dict.fromkeys(reasons))
        or "it computes another result; open windows after it have rows from before and after"
    )


def _is_equal(old: VertexSpec, new: VertexSpec) -> bool:
    """Return whether both have the same operators, input columns and output columns."""
    schemas = old.output_payload.equals(new.output_payload)
    ports = [[plain_schema(c.payload) for c in vertex.inputs] for vertex in (old, new)]
    return schemas and ports[0] == ports[1] and repr(old.operators) == repr(new.operators)


def _new_columns(old: VertexSpec, new: VertexSpec) -> list[str]:
    """Return the columns that the source has not read before."""
    if old.source is None or new.source is None:
        return []
    known = set(old.source.spec.schema.names)
    return [name for name in new.source.spec.schema.names if name not in known]


def _other_types(
    was: SourcePartition | None, is_now: SourcePartition | None, *, is_read: bool
) -> list[str]:
    """Return the columns whose type differs.

    ``is_read``: columns that both queries read, or not.
    """
    if was is None or is_now is None:
        return []
    read = set(was.spec.schema.names) & set(is_now.spec.schema.names)
    before, after = (plain_schema(s.spec.row_schema) for s in (was, is_now))
    differ = [f.name for f in after if f.name in before.names and before.field(f.name) != f]
    return [name for name in differ if (name in read) == is_read]


def _deliveries(old: PhysicalPlan, new: PhysicalPlan) -> list[Row]:
    before, after = ([name_of(spec) for spec in plan.deliveries] for plan in (old, new))
    rows = []
    for name in after:
        is_kept = name in before
        reason = "" if is_kept else "delivers the whole output that is kept"
        former = f"delivery {name}" if is_kept else ""
        verdict = "kept" if is_kept else "started"
        rows.append(Row(f"delivery {name}", former, verdict, reason))
    gone = [name for name in before if name not in after]
    return [*rows, *(Row("", f"delivery {name}", "dropped", "it ends here") for name in gone)]


def _refused_stages(before: _Plan, after: _Plan, links: dict[str, str]) -> list[str]:
    reasons = []
    for new, old in links.items():
        counts = len(before.vertices[old]), len(after.vertices[new])
        if counts[0] != counts[1]:
            reasons.append(
                f"stage {new} would have {counts[1]} vertices instead of {counts[0]}: keep the "
                "number of its partitions"
            )
            continue
        for was, is_now in zip(before.sources(old), after.sources(new), strict=True):
            if was.spec.live is None and was.units != is_now.units:
                reasons.append(
                    f"stage {new} would read other rows of {was.spec.shown or was.spec.path}: "
                    "without follow=True a job reads the files of its start"
                )
                break
            if types := _other_types(was, is_now, is_read=True):
                reasons.append(
                    f"stage {new} would read {', '.join(types)} with another type: keep the type, "
                    "or give the new values another name"
                )
            other = sorted(_source_fields(was, is_now) - _RULES_OF_SOURCE)
            if other:
                names = ", ".join(words_of_field(rule) for rule in other)
                reasons.append(f"stage {new} would read its source with another {names}: keep it")
    for side in (before, after):
        for name, vertices in side.vertices.items():
            if vertices[0].recovery.strategy == "strong":
                reasons.append(
                    f"stage {name} is recovered as 'strong', so it cannot be changed: start "
                    "jobs that may change with recovery='checkpoint'"
                )
            if any(draws_values(operator) for operator in vertices[0].operators):
                reasons.append(
                    f"stage {name} uses outside values (such as ctx.now or a lookup), which are "
                    "logged, so it cannot be changed: call the function in a separate job, and "
                    "change the job that reads its output"
                )
    return list(dict.fromkeys(reasons))


def _refused_output(old: PhysicalPlan, new: PhysicalPlan, links: dict[str, str]) -> list[str]:
    names = [[output.name for output in plan.of_outputs] for plan in (old, new)]
    if names[0] != names[1]:
        before, after = (", ".join(of_plan) for of_plan in names)
        return [f"its outputs would be {after}, not {before}: keep their names and their order"]
    owners = [
        {name_of(spec): output.name for output in plan.of_outputs for spec in output.deliveries}
        for plan in (old, new)
    ]
    reasons = [
        f"delivery {name} would get the rows of output {owner}: give it another name"
        for name, owner in owners[1].items()
        if owners[0].get(name, owner) != owner
    ]
    for was, is_now in zip(old.of_outputs, new.of_outputs, strict=True):
        prefix = f"output {was.name}: " if len(names[0]) > 1 else ""
        reasons += [prefix + reason for reason in _refused_result(was, is_now, links)]
    return reasons


def _last_stage(plan: PhysicalPlan) -> Stage:
    name = next(v.stage for v in plan.vertices for edge in v.outputs if edge.is_sink)
    return next(stage for stage in plan.stages if stage.name == name)


def _new_output_columns(old: PhysicalPlan, new: PhysicalPlan) -> dict[str, list[str]]:
    """Return by stage the columns that its output has and the former output lacks."""
    outputs = zip(old.of_outputs, new.of_outputs, strict=False)
    return {
        _last_stage(is_now).name: [c for c in is_now.schema.names if c not in was.schema.names]
        for was, is_now in outputs
    }


def _other_end(was: Stage, is_now: Stage) -> str:
    """Return how the last stage differs from the one whose output it would continue."""
    pairs = ((is_now, was), (was, is_now))
    new, old = ([o for o in a.operators if o not in b.operators] for a, b in pairs)
    how = f"with {'; '.join(new)!r} instead of {'; '.join(old)!r}"
    if not (new and old):
        how = f"from other inputs or in other steps than stage {was.name}"
    return f"stage {is_now.name} would write the output {how}"


def _refused_result(old: PhysicalPlan, new: PhysicalPlan, links: dict[str, str]) -> list[str]:
    """Return the reasons why an output cannot continue."""
    if old.output != new.output:
        return [f"its output would move from {old.output} to {new.output}: keep the folder"]
    if (old.publishing, old.changes is None) != (new.publishing, new.changes is None):
        return ["its output would be written in another way: keep the options of its output"]
    if len(old.sink_streams()) != len(new.sink_streams()):
        counts = len(new.sink_streams()), len(old.sink_streams())
        many = f"its output would have {counts[0]} partitions instead of {counts[1]}"
        return [f"{many}: keep the last step that divides rows by key"]
    was, is_now = _last_stage(old), _last_stage(new)
    if links.get(is_now.name) != was.name:
        return [f"{_other_end(was, is_now)}: keep the sources and the last step with state"]
    reasons = []
    for column in old.schema:
        if column.name not in new.schema.names:
            reasons.append(f"column {column.name!r} of the output would be removed: keep it")
        elif not new.schema.field(column.name).type.equals(column.type):
            kinds = new.schema.field(column.name).type, column.type
            reasons.append(
                f"column {column.name!r} of the output would be {kinds[0]}, not {kinds[1]}: give "
                "the new values another name"
            )
    return reasons
