"""The rooms (folders) of the four packages in import order, and which of them are pure.

A room is a folder's own files. A file that comes before the rest of its folder, or after its
subfolders, is its own room. A room may import only earlier rooms.

``python -m tests.rooms`` prints the files whose branches ``make coverage`` counts.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parent.parent

ROOMS = (
    *("rstream/types.py", "rstream/errors.py", "rstream/limits.py", "rstream/clock.py"),
    *("rstream/secret_values.py", "rstream/connection_strings.py"),
    *("rstream/items", "rstream/store", "rstream/format", "rstream/log", "rstream/intake"),
    *("rstream/transport", "rstream"),
    *("rvertex/errors.py", "rvertex/events/call_counts.py", "rvertex/messages.py"),
    *("rvertex/events", "rvertex/keys", "rvertex/state"),
    *("rvertex/user_code", "rvertex/user_code/keyed"),
    *("rvertex/aggregates", "rvertex/aggregates/ranked", "rvertex/aggregates/registry.py"),
    *("rvertex/aggregates/spec.py", "rvertex/operators", "rvertex/operators/ordered"),
    "rvertex/operators/windows/arithmetic.py",
    "rvertex/operators/windows/window_log.py",
    "rvertex/operators/windows/panes/near_groups.py",
    "rvertex/operators/windows/grouping.py",
    *("rvertex/operators/windows/panes", "rvertex/operators/windows"),
    *("rvertex/operators/windows/snapshots", "rvertex/operators/windows/running"),
    "rvertex/operators/ordered/matching",
    *("rvertex/operators/lifetimes", "rvertex/operators/joins", "rvertex/operators/edges"),
    "rvertex/operators/edges/lifetimes",
    "rvertex/operators/user",
    *("rvertex/sources/versions.py", "rvertex/sources/spec.py", "rvertex/sources/files.py"),
    "rvertex/sources/times.py",
    *("rvertex/sources/formats/rows", "rvertex/sources/formats"),
    *("rvertex/sources/formats/first_rows", "rvertex/sources/formats/registry.py"),
    "rvertex/sources",
    *("rvertex/sources/logs/errors.py", "rvertex/sources/logs/entries.py"),
    *("rvertex/sources/logs/protocol.py", "rvertex/sources/logs/decode"),
    *("rvertex/sources/logs/kafka", "rvertex/sources/logs"),
    *("rvertex/sinks/errors.py", "rvertex/sinks/protocol.py"),
    *("rvertex/sinks/postgres_columns.py", "rvertex/sinks/limits.py", "rvertex/sinks/spec.py"),
    *("rvertex/registry", "rvertex/sinks/kafka"),
    "rvertex/sinks",
    *("rvertex/vertex", "rvertex/checkpoint", "rvertex/checkpoint/ranges"),
    *("rvertex/registry/joiner", "rvertex/host", "rvertex/host/spark", "rvertex"),
    *("planner/errors.py", "planner/durations.py", "planner/fingerprint.py"),
    *("planner/quantities.py", "planner/user_code.py", "planner/expressions/suggestions.py"),
    *("planner/expressions/type_names.py", "planner/expressions/types.py"),
    "planner/expressions/rows.py",
    "planner/expressions/failure.py",
    "planner/expressions/nodes.py",
    *("planner/expressions/bare_text.py", "planner/expressions/bounds.py"),
    *("planner/expressions/functions/doubles.py", "planner/expressions/spark"),
    *("planner/expressions/entries", "planner/expressions/functions/texts"),
    "planner/expressions/functions/of_rows",
    *("planner/expressions/functions", "planner/expressions"),
    *("planner/logical/windows.py", "planner/logical/hint_types.py"),
    *("planner/logical/nodes", "planner/logical"),
    *("planner/cost", "planner/optimizer/trace.py", "planner/optimizer/rules"),
    "planner/optimizer",
    *("planner/physical/slot_ranges.py", "planner/physical/plan.py"),
    "planner/physical/dictionaries.py",
    *("planner/physical/stage_builder.py", "planner/physical/rules", "planner/physical"),
    "planner/batch/spark_sql",
    *("planner/batch/temporal", "planner/batch/user_code", "planner/batch"),
    *("planner/api/namespaces.py", "planner/api/expressions.py"),
    *("planner/api/choices.py", "planner/api/sources.py"),
    *("planner/api/names.py", "planner/api/inputs", "planner/api/grouped/ordered_rows.py"),
    *("planner/api/grouped/user_aggregate.py", "planner/api/agg.py"),
    *("planner/api/joining", "planner/api/grouped"),
    *("planner/api/joining/by_id.py", "planner/api/grouped/matching"),
    *(
        "planner/api",
        "planner/sql/reading/forms/queries/engines",
        "planner/sql/reading/forms/queries",
        "planner/sql/reading/forms/templates",
        "planner/sql/reading/forms",
        "planner/sql/reading",
        "planner/sql/expressions/engines",
    ),
    *("planner/sql/expressions", "planner/sql/windows"),
    "planner/sql/clauses",
    "planner/sql/tables",
    *("planner/sql", "planner/explain", "planner"),
    *("jobmanager/errors.py", "jobmanager/config.py", "jobmanager/logs.py"),
    *("jobmanager/options.py", "jobmanager/spark_daemon.py"),
    *("jobmanager/state", "jobmanager/manager", "jobmanager/storage", "jobmanager/delivery"),
    *("jobmanager/driver", "jobmanager/driver/running/changes"),
    *("jobmanager/driver/running/changes/scaling", "jobmanager/driver/running"),
    "jobmanager/driver/running/batch",
    *("jobmanager/intake", "jobmanager/replay", "jobmanager/replay/rows"),
    *("jobmanager/cli/exits.py", "jobmanager/cli/options.py", "jobmanager/cli/requests.py"),
    *("jobmanager/cli/view.py", "jobmanager/cli/running", "jobmanager/cli/results.py"),
    "jobmanager/cli/branching",
    *("jobmanager/cli/run_options.py", "jobmanager/cli/page/doctor", "jobmanager/cli/page"),
    *("jobmanager/cli/page/export", "jobmanager/cli/page/server.py"),
    *("jobmanager/cli/page/verbs.py", "jobmanager/cli/verbs"),
    "jobmanager/replay/verbs.py",
    "jobmanager/replay/state_verb.py",
    *("jobmanager/cli", "jobmanager"),
    *("streamscope/testing/servers", "streamscope/testing/errors.py"),
    *("streamscope/testing/tables.py", "streamscope/testing/clocks.py"),
    *("streamscope/testing/inputs.py", "streamscope/testing/plan_run.py"),
    *("streamscope/testing/runs.py", "streamscope/testing/ways"),
    "streamscope/testing/determinism.py",
    *("streamscope/testing/simulation/scheduler.py", "streamscope/testing/simulation/storage.py"),
    "streamscope/testing/simulation/workload.py",
    *("streamscope/testing/simulation/laws", "streamscope/testing/simulation"),
    *("streamscope/testing/simulation/faults", "streamscope/testing/simulation/run.py"),
    *("streamscope/testing/simulation/of_query.py", "streamscope/testing"),
)
#: Code that must replay exactly has no clock, randomness, environment or thread.
PURE = (
    *("rstream/items", "rstream/format", "rstream/log/tail.py", "rstream/store/segment_names.py"),
    *("rstream/intake/producers.py", "rstream/intake/rows.py"),
    *("rvertex/events", "rvertex/keys", "rvertex/user_code", "rvertex/aggregates"),
    *("rvertex/operators", "rvertex/sources", "rvertex/vertex"),
    *("rvertex/registry/shard_map.py", "rvertex/registry/entries.py", "rvertex/registry/shard.py"),
    "rvertex/registry/joiner/waiting.py",
    *("rvertex/checkpoint/codec.py", "rvertex/checkpoint/chunks.py"),
    *("planner/expressions", "planner/logical", "planner/cost", "planner/optimizer"),
    *("planner/physical", "planner/batch", "planner/api", "planner/sql", "planner/explain"),
    *("jobmanager/state", "jobmanager/manager"),
)
#: Rooms in PURE that talk to servers in the background.
FETCHING = ("rvertex/sources/logs/kafka",)
PACKAGES = ("rstream", "rvertex", "planner", "jobmanager")
#: The folder of the submodules of ``streamscope.py``.
ABOVE = "streamscope"
FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for name in (*PACKAGES, ABOVE)
    for path in (ROOT / name).rglob("*.py")
)

_KNOWN = frozenset(FILES)


def room_of(file: str) -> str:
    """The room of a file: itself, or its folder."""
    return file if file in ROOMS else file.rpartition("/")[0]


def is_pure(file: str) -> bool:
    if any(file.startswith(room + "/") for room in FETCHING):
        return False
    return any(file == room or file.startswith(room + "/") for room in PURE)


@functools.cache
def tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(), file)


@functools.cache
def nodes(file: str) -> tuple[ast.AST, ...]:
    """All nodes of a file, each before its children."""
    return tuple(walk(tree(file)))


def walk(root: ast.AST) -> list[ast.AST]:
    """All nodes but contexts, each before its children; ``ast.walk`` takes four times as long."""
    found: list[ast.AST] = []
    rest = [root]
    while rest:
        node = rest.pop()
        found.append(node)
        for value in vars(node).values():
            if isinstance(value, list):
                rest += [part for part in value if isinstance(part, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                rest.append(value)
    return found


@functools.cache
def file_of(name: str) -> str | None:
    """The file of a dotted name, or None if it is not in the four packages."""
    parts = name.split(".")
    if parts[0] not in PACKAGES and parts[:2] != [ABOVE, "testing"]:
        return None
    for count in range(len(parts), 0, -1):
        path = "/".join(parts[:count])
        for found in (f"{path}.py", f"{path}/__init__.py"):
            if found in _KNOWN:
                return found
    raise AssertionError(f"{name} is nowhere")


@functools.cache
def imported_files(file: str) -> set[str]:
    """The package files that ``file`` imports anywhere, also for types only."""
    return {found for name in imported_names(file) if (found := file_of(name)) not in (None, file)}


@functools.cache
def imported_names(file: str) -> frozenset[str]:
    """Every name that a file imports, also inside functions and type-checking blocks."""
    found: list[str] = []
    for node in nodes(file):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += (f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


if __name__ == "__main__":
    # Only Spark runs the batch; its tests are not among the fast ones.
    counted = [room for room in PURE if room != "planner/batch"]
    print(",".join(room if room.endswith(".py") else f"{room}/*" for room in counted))
