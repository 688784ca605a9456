"""Chooses the bugs: a seeded sample of the changes that cosmic-ray can make to the pure modules.

A *place* is an expression or a statement that an operator of cosmic-ray can change; if there are
several changes, one is drawn. Places whose change no run can detect are skipped: annotations,
imports for types, assertions, docstrings, the texts of errors and the slots of dataclasses.
"""

from __future__ import annotations

import ast
import random
import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

if TYPE_CHECKING:
    from pathlib import Path

#: Changes that a person might make by mistake; cosmic-ray's other changes would crash at once.
PLAUSIBLE = re.compile(
    "core/("
    "ReplaceComparisonOperator_(Lt|LtE|Gt|GtE|Eq|NotEq)_(Lt|LtE|Gt|GtE|Eq|NotEq)"
    "|ReplaceComparisonOperator_(Is_IsNot|IsNot_Is|In_NotIn|NotIn_In)"
    "|ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Add|FloorDiv_Mul|Mod_FloorDiv)"
    "|ReplaceBinaryOperator_(BitAnd_BitOr|BitOr_BitAnd|BitXor_BitOr|LShift_RShift|RShift_LShift)"
    "|ReplaceUnaryOperator_(USub_UAdd|Invert_UAdd|Delete_.*)"
    "|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd|AddNot"
    "|ReplaceBreakWithContinue|ReplaceContinueWithBreak|NumberReplacer|ZeroIterationForLoop"
    ")"
)
Position = tuple[int, int]


@dataclass(frozen=True)
class Mutant:
    """A change of a file. ``occurrence`` counts the places of ``operator`` in the file."""

    path: str
    line: int
    operator: str
    occurrence: int

    def code(self, source: str) -> str | None:
        """The changed source; None if the operator does not apply."""
        operator = get_operator(self.operator)()
        changed: str | None = mutate_code(source, operator, self.occurrence)
        return changed


def sample(root: Path, paths: list[str], count: int, seed: int) -> list[Mutant]:
    """``count`` places of these files, each with one valid change."""
    places = [place for path in paths for place in _places(root, path)]
    chosen = random.Random(seed)
    chosen.shuffle(places)
    drawn = (chosen.choice(changes) for changes in places)
    return list(
        islice((m for m in drawn if _is_python(m.code((root / m.path).read_text()))), count)
    )


def _is_python(source: str | None) -> bool:
    """Whether the changed source parses: the ``*`` before keyword-only parameters is no product."""
    try:
        ast.parse(source or "")
    except SyntaxError:
        return False
    return source is not None


def _places(root: Path, path: str) -> list[list[Mutant]]:
    """The changes of a file, per place."""
    source = (root / path).read_text()
    hidden = _hidden(ast.parse(source))
    nodes = list(ast_nodes(get_ast(source)))
    found: dict[tuple[str, Position], list[Mutant]] = defaultdict(list)
    for name in operator_names():
        if not PLAUSIBLE.fullmatch(name):
            continue
        family = name.partition("_")[0]
        operator: Any = get_operator(name)()
        positions = (p for node in nodes for p in operator.mutation_positions(node))
        for occurrence, (start, _) in enumerate(positions):
            if not any(low <= tuple(start) < high for low, high in hidden):
                mutant = Mutant(path, start[0], name, occurrence)
                found[family, tuple(start)].append(mutant)
    return list(found.values())


def _hidden(tree: ast.Module) -> list[tuple[Position, Position]]:
    """Ranges in which no test can detect a change."""
    found: list[ast.AST] = []
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=annotation):
                found.append(annotation)
            case ast.arg(annotation=ast.expr() as annotation):
                found.append(annotation)
            case ast.FunctionDef(returns=ast.expr() as returns):
                found.append(returns)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assert() | ast.JoinedStr():
                found.append(node)
            case ast.FunctionDef(name="check" | "__str__" | "__repr__"):
                found.append(node)
            case ast.Expr(value=ast.Constant(value=str())) | ast.keyword(arg="slots"):
                found.append(node)
    return [_range(node) for node in found]


def _range(node: Any) -> tuple[Position, Position]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
