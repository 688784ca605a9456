"""The house rules that a machine can check: imports, fences, determinism, sizes, errors, top level.

Not covered: a clock or a set hidden behind a call into another library, or a bad name.
"""

from __future__ import annotations

import ast
import fnmatch
import importlib
import inspect
import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings

from rstream.errors import IntegrityError, OperatingError, StreamEngineError, UsageError
from tests.rooms import FILES as NAMES, PACKAGES, ROOT, imported_names, is_pure, nodes, tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Far above the usual 80 to 400 lines: a file is split by meaning, not to fit this number.
LINES_MAX = 500
FUNCTION_LINES_MAX = 60

TOP_LEVEL = {
    *PACKAGES,
    *("setup.cfg", "pyproject.toml", "Makefile", "README.md", "CHANGELOG.md", "changes", "LICENSE"),
    "SECURITY.md",
    *(
        "streamscope.py",
        "streamscope",
        "streamscope_pytest.py",
        "constraints.txt",
        "CONTRIBUTING.md",
    ),
    *("tests", "benchmarks", "examples", "docs"),
}
#: One module per external system: files that may import it.
FENCES = {
    "pyspark": (
        *("rvertex/host/spark/*", "planner/batch/compile.py", "jobmanager/spark_daemon.py"),
        *("planner/batch/windowed.py", "jobmanager/delivery/answer.py"),
    ),
    "fsspec": ("rstream/store/blobs.py",),
    "s3fs": ("rstream/store/blobs.py",),
    "confluent_kafka": (
        *("rvertex/sources/logs/kafka/client.py", "rvertex/sinks/*"),
        "streamscope/testing/servers/broker.py",
    ),
    "polars": ("rvertex/sources/logs/decode/avro_blocks.py", "jobmanager/delivery/answer.py"),
    "fastavro": (
        "rvertex/sources/logs/decode/avro_rows.py",
        "rvertex/sinks/kafka/avro_rows.py",
    ),
    "nats": ("rvertex/registry/nats_log.py",),
    "sqlglot": ("planner/sql/*",),
    "starlette": ("jobmanager/intake/app.py", "jobmanager/cli/page/app.py"),
    "uvicorn": ("jobmanager/intake/listening.py",),
    "prometheus_client": ("jobmanager/cli/page/metrics.py",),
    "pyarrow.flight": (
        *("rstream/transport/flight.py", "jobmanager/intake/flight.py"),
        "jobmanager/cli/page/export/tables.py",
    ),
    "pyarrow.parquet": (
        *("rstream/format/codec.py", "rstream/format/segment_file.py"),
        *("rvertex/sources/*", "rvertex/sinks/parquet.py", "streamscope/testing/golden.py"),
        "streamscope/testing/simulation/laws/shadow.py",
    ),
    "adbc_driver_manager": ("rvertex/sinks/postgres.py",),
    "adbc_driver_postgresql": (
        *("rvertex/sinks/postgres.py", "streamscope/testing/servers/postgres.py"),
    ),
}
#: Code that is sent or stored by value; pyspark brings the pickler, which is no use of Spark.
CLOUDPICKLE = (
    "rvertex/user_code/pickled.py",
    "jobmanager/storage/query_file.py",
    "planner/user_code.py",
)
IMPURE_MODULES = {"time", "random", "secrets", "uuid", "threading", "numpy.random"}
IMPURE_CALLS = {"hash", "id"}
#: Distinguishes nodes by identity, but never orders by it.
BY_IDENTITY = "planner/logical/traversal.py"
IMPURE_ATTRIBUTES = {
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
    *("os.environ", "os.getenv", "os.urandom", "np.random"),
}


def is_within(imported: str, module: str) -> bool:
    return imported == module or imported.startswith(module + ".")


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def test_each_outside_system_is_used_in_one_file() -> None:
    wrong = []
    for name in NAMES:
        found = imported_names(name) - ({"pyspark.cloudpickle"} if name in CLOUDPICKLE else set())
        for system, doors in FENCES.items():
            if any(is_within(i, system) for i in found) and not matches(name, doors):
                wrong.append(f"{name} must not import {system}")
    assert not wrong, "\n".join(wrong)


def test_pure_modules_are_deterministic() -> None:
    wrong = []
    for name in (n for n in NAMES if is_pure(n)):
        wrong += [
            f"{name}: {imported}"
            for imported in sorted(imported_names(name))
            if any(is_within(imported, module) for module in IMPURE_MODULES)
        ]
        if not any(impurity for node in nodes(name) for impurity in impurities(node)):
            continue
        for node in deterministic_part(tree(name)):
            for impurity in impurities(node):
                if not (name == BY_IDENTITY and impurity == "id()"):
                    wrong.append(f"{name}, line {getattr(node, 'lineno', '?')}: {impurity}")
    assert not wrong, "\n".join(wrong)


def deterministic_part(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes except those of ``__hash__``, which only dictionaries use."""
    yield node
    for child in ast.iter_child_nodes(node):
        if getattr(child, "name", "") != "__hash__":
            yield from deterministic_part(child)


def impurities(node: ast.AST) -> Iterator[str]:
    """Return the part of this node that would differ between two runs."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in IMPURE_CALLS:
            yield f"{node.func.id}()"
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        name = f"{node.value.id}.{node.attr}"
        if name in IMPURE_ATTRIBUTES:
            yield name
    elif isinstance(node, ast.For | ast.comprehension) and is_set(node.iter):
        yield "iterates over a set"


def is_set(node: ast.expr) -> bool:
    """Whether an expression is plainly a set (``sorted(...)`` around it makes it a list)."""
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.BinOp):
        return is_set(node.left) or is_set(node.right)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"set", "frozenset"}
    )


def test_iteration_over_sets_is_detected() -> None:
    bad = ast.parse("[x for x in set(y)]\nfor z in {1, 2} | a: pass\nfor w in sorted({1}): pass")
    assert [w for n in ast.walk(bad) if not isinstance(n, ast.mod) for w in impurities(n)] == [
        "iterates over a set",
        "iterates over a set",
    ]


def test_files_and_functions_are_short() -> None:
    wrong = []
    for name in NAMES:
        lines = (ROOT / name).read_text().count("\n")
        if lines > LINES_MAX:
            wrong.append(f"{name} has {lines} lines")
        for node in nodes(name):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    wrong.append(f"{name}: {node.name} has {length} lines")
    assert not wrong, "\n".join(wrong)


def test_modules_have_a_docstring() -> None:
    wordless = [n for n in NAMES if tree(n).body and not ast.get_docstring(tree(n))]
    assert not wordless, "\n".join(wordless)


def test_no_module_is_called_utils() -> None:
    junk = {"utils", "util", "helpers", "common", "misc"}
    assert [name for name in NAMES if Path(name).stem in junk] == []


def test_top_level_is_as_agreed() -> None:
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines()]
    extra = sorted(
        p.name
        for p in ROOT.iterdir()
        if p.name not in TOP_LEVEL
        and not p.name.startswith(".")
        and not any(fnmatch.fnmatch(p.name, pattern) for pattern in ignored)
    )
    assert not extra, f"not of the top level: {extra}"
    missing = sorted(n for n in TOP_LEVEL if not (ROOT / n).exists())
    assert not missing, f"missing at the top level: {missing}"


def every_error() -> list[type[StreamEngineError]]:
    """All error classes, also those defined beside the code that raises them."""
    for file in NAMES:
        if "StreamEngineError" in (text := (ROOT / file).read_text()) or "Error):" in text:
            importlib.import_module(
                file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            )
    found: list[type[StreamEngineError]] = []
    todo: list[type[StreamEngineError]] = [StreamEngineError]
    while todo:  # ends: the tree of subclasses is finite
        kind = todo.pop()
        found.append(kind)
        todo += kind.__subclasses__()
    return sorted(
        (k for k in found if k.__module__.split(".")[0] in PACKAGES), key=lambda k: k.__qualname__
    )


SAMPLES: dict[str, Any] = {"int": 3, "float": 1.5, "bool": True, "bytes": b"b", "str": "a"}


def sample(annotation: str) -> Any:
    """Some value of an annotated type."""
    if annotation.startswith(("tuple", "Sequence")):
        return ("a", "b")
    if annotation.startswith("list"):
        return ["a", "b"]
    if annotation.startswith(("dict", "Mapping")):
        return {"a": 1}
    return SAMPLES.get(annotation.split(" |")[0], "a")


def example_of(kind: type[StreamEngineError]) -> StreamEngineError:
    if kind.__init__ is StreamEngineError.__init__:
        return kind("what went wrong")
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters), (
        f"fields of {kind.__qualname__} are positional"
    )
    return kind(*(sample(str(p.annotation)) for p in parameters))


def test_every_error_has_a_text() -> None:
    """Show every error once: a message template with a wrong field or format would raise then."""
    for kind in every_error():
        text = str(example_of(kind))
        assert text, kind
        assert not re.search(r"{\w*[!:}]", text), (kind, text)


def test_errors_survive_pickling() -> None:
    wrong = [kind.__qualname__ for kind in every_error() if not survives_pickling(kind)]
    assert not wrong, "\n".join(wrong)


def survives_pickling(kind: type[StreamEngineError]) -> bool:
    error = example_of(kind)
    again = pickle.loads(pickle.dumps(error))
    return (
        type(again) is kind
        and again.args == error.args
        and vars(again) == vars(error)
        and str(again) == str(error) != ""
    )


def test_errors_name_who_must_act() -> None:
    wrong = [
        kind.__qualname__
        for kind in every_error()
        if kind is not StreamEngineError
        and sum(issubclass(kind, f) for f in (UsageError, OperatingError, IntegrityError)) != 1
    ]
    assert not wrong, "\n".join(wrong)


def test_examples_have_no_deadline() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
    texts = {p: p.read_text() for p in (ROOT / "tests").rglob("*.py")}
    own = [p.name for p, text in texts.items() if re.search(r"deadline=[\d(t]", text)]
    assert not own, own


WHOLLY_FROZEN = ("/messages.py", "/plan.py")
#: Records that no file changes, but code generated at run time does.
CHANGED_BY_MADE_CODE = ("Timer",)


def test_unchanged_records_are_frozen() -> None:
    """Frozen records can be keys, as plans and specifications are, and never change for others.

    Messages and plans must be frozen even if a field of that name is set elsewhere. A class that
    sets its own fields does not count.
    """
    classes = [
        (name, node) for name in NAMES for node in nodes(name) if isinstance(node, ast.ClassDef)
    ]
    changed = {attr for name in NAMES for of, attr in _attributes_set(nodes(name)) if of != "self"}
    loose = []
    for name, node in classes:
        if not _is_loose(node) or node.name in CHANGED_BY_MADE_CODE:
            continue
        parts = (part.target for part in node.body if isinstance(part, ast.AnnAssign))
        own = {target.id for target in parts if isinstance(target, ast.Name)}
        kin = [c for _, c in classes if c is node or node.name in map(ast.unparse, c.bases)]
        by_itself = {attr for c in kin for _, attr in _attributes_set(ast.walk(c))}
        if name.endswith(WHOLLY_FROZEN) or not own & (changed | by_itself):
            loose.append(f"{name}: {node.name}")
    assert not loose, "write @dataclass(frozen=True)"


def _attributes_set(parts: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    for part in parts:
        if isinstance(part, ast.Attribute) and not isinstance(part.ctx, ast.Load):
            yield ast.unparse(part.value), part.attr


def _is_loose(node: ast.ClassDef) -> bool:
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        if ast.unparse(decorator if call is None else call.func) == "dataclass":
            given = {} if call is None else {k.arg: ast.unparse(k.value) for k in call.keywords}
            return given.get("frozen") != "True"
    return False


def test_private_names_are_used() -> None:
    """Each private name is used by its own file or by a file that imports it."""
    imported = {name for file in NAMES for name in _names_imported(file)}
    unused = []
    for file in NAMES:
        parts = nodes(file)
        read = {n.id for n in parts if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        read |= {n.value for n in parts if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        private = (name for name in _names_made(file) if re.match("_[^_]", name))
        unused += [f"{file}: {name}" for name in private if name not in read | imported]
    assert not unused


def _names_imported(file: str) -> Iterator[str]:
    for node in nodes(file):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def _names_made(file: str) -> Iterator[str]:
    """The names defined at a module's top level."""
    for node in tree(file).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))
