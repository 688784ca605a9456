"""A plan as JSON; docs/OPTIMIZER.md describes its fields.

Invariants: (1) keys are only added; a changed meaning gets another ``version``; (2) the text
depends on the plan only, so equal plans have equal texts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.physical.plan import PhysicalPlan, Stage, StageCost, StageInput

VERSION = 1
#: Significant digits of estimates.
_DIGITS = 4


def to_json(plan: PhysicalPlan) -> str:
    """Return the plan's document as indented JSON."""
    return json.dumps(document(plan), indent=2) + "\n"


def document(plan: PhysicalPlan) -> dict[str, Any]:
    """Return the plan's document as plain dicts and lists."""
    trace = plan.plan_trace
    return {
        "version": VERSION,
        "plan": plan.plan_hash,
        "parallelism": plan.parallelism,
        "cti_every_us": plan.cti_every_us,
        "output": plan.output,
        "schema": [{"name": f.name, "type": str(f.type)} for f in plan.of_outputs[0].schema],
        **_outputs(plan),
        "before": "" if trace is None else trace.before,
        "after": "" if trace is None else trace.after,
        "rules": [
            {
                "rule": step.rule,
                "why": step.why,
                "removed": list(step.removed),
                "added": list(step.added),
            }
            for step in (() if trace is None else trace.steps)
        ],
        "stages": [_stage(plan, stage) for stage in plan.stages],
    }


def _outputs(plan: PhysicalPlan) -> dict[str, Any]:
    """Return the outputs of a job that has several, each with the columns of its rows."""
    if len(plan.of_outputs) == 1:
        return {}
    rows = [
        {
            "name": output.name,
            "output": output.output,
            "schema": [{"name": f.name, "type": str(f.type)} for f in output.schema],
        }
        for output in plan.of_outputs
    ]
    return {"outputs": rows}


def _stage(plan: PhysicalPlan, stage: Stage) -> dict[str, Any]:
    return {
        "stage": stage.name,
        "parallelism": stage.parallelism,
        "vertices": [v.id for v in plan.vertices if v.stage == stage.name],
        "operators": list(stage.operators),
        "reads": list(stage.reads),
        "inputs": [_input(edge) for edge in stage.inputs],
        "is_sink": stage.is_sink,
        "recovery": _recovery(stage),
        "estimate": None if stage.cost is None else _estimate(stage.cost),
    }


def _input(edge: StageInput) -> dict[str, Any]:
    return {
        "stage": edge.upstream,
        "port": edge.port,
        "routing": edge.routing,
        "keys": list(edge.keys),
        "durability": edge.durability,
        "why": edge.reason,
    }


def _recovery(stage: Stage) -> dict[str, Any] | None:
    if stage.recovery is None:
        return None
    return {
        "strategy": stage.recovery.strategy,
        "replicas": stage.recovery.replicas,
        "horizon_us": stage.recovery.horizon_us,
        "why": stage.why_recovery,
    }


def _estimate(cost: StageCost) -> dict[str, Any]:
    numbers = {
        "rows_in": cost.rows_in,
        "rows_in_per_s": cost.rows_in_per_s,
        "rows_out": cost.rows_out,
        "bytes_out": cost.bytes_out,
        "state_bytes": cost.state_bytes,
        "work_core_s": cost.core_s,
        "cores": cost.cores,
    }
    return {
        **{name: float(f"{value:.{_DIGITS}g}") for name, value in numbers.items()},
        "recommended_parallelism": cost.recommended_parallelism,
        "why": cost.why,
        "is_assumed": cost.is_assumed,
    }
