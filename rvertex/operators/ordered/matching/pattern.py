"""Row patterns, and the program to which a pattern is compiled.

A pattern is a regular expression over *variables*. A row may be mapped to a variable if the
variable's condition is true of it. Of all ways to match from a row on, only the *preferred* one is
used. An alternation prefers its parts from left to right. A greedy quantifier prefers one more
repetition, a reluctant one prefers to stop. A repetition without an upper limit ends when a round
maps no row.

The program is a list of instructions. Threads run it in order of preference
(:mod:`rvertex.operators.ordered.matching.automaton`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from rvertex.errors import OperatorTypeError

#: Most instructions of a program; ``A{1000}`` needs a thousand instructions.
PROGRAM_MAX = 10_000
#: Most variables of a PERMUTE; six have 720 orders.
PERMUTE_MAX = 6
#: Most variables of a pattern, since a row's conditions are the bits of one integer.
VARIABLES_MAX = 62


@dataclass(frozen=True, slots=True)
class Var:
    """A row mapped to the variable number ``index``."""

    index: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts in sequence; without parts, the empty pattern."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """One of the parts; the first part that leads to a match is preferred."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Repetition:
    """``least`` to ``most`` rounds of a part. ``most`` None: no limit."""

    part: Pattern
    least: int
    most: int | None
    greedy: bool = True


@dataclass(frozen=True, slots=True)
class Exclusion:
    """``{- part -}``: its rows are not in the output."""

    part: Pattern


@dataclass(frozen=True, slots=True)
class Permutation:
    """All parts once, in any order; orders with earlier parts first are preferred."""

    parts: tuple[Pattern, ...]


Pattern = Var | Sequence | Alternation | Repetition | Exclusion | Permutation


@dataclass(frozen=True, slots=True)
class Take:
    """Map the row to a variable and go to the next instruction."""

    variable: int
    is_excluded: bool


@dataclass(frozen=True, slots=True)
class Fork:
    """Continue at all targets, the preferred one first; a single target is a jump."""

    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Accept:
    """The pattern has matched."""


Instruction = Take | Fork | Accept


@dataclass(slots=True)
class _Compiler:
    """Compiles a pattern to a list of instructions."""

    code: list[Instruction] = field(default_factory=list)
    is_excluded: bool = False

    def emit(self, instruction: Instruction) -> int:
        """Append an instruction; return its index."""
        if len(self.code) >= PROGRAM_MAX:
            raise OperatorTypeError(
                "match", f"the pattern has more than {PROGRAM_MAX:,} steps; use smaller quantifiers"
            )
        self.code.append(instruction)
        return len(self.code) - 1

    def add(self, part: Pattern) -> None:
        """Append the program of a part."""
        match part:
            case Var(index):
                self.emit(Take(index, self.is_excluded))
            case Sequence(parts):
                for inner in parts:
                    self.add(inner)
            case Alternation(parts):
                self._add_alternation(parts)
            case Permutation(parts):
                if len(parts) > PERMUTE_MAX:
                    reason = f"PERMUTE takes at most {PERMUTE_MAX} parts, not {len(parts)}"
                    raise OperatorTypeError("match", reason)
                self._add_alternation(tuple(map(Sequence, itertools.permutations(parts))))
            case Exclusion(inner):
                before, self.is_excluded = self.is_excluded, True
                self.add(inner)
                self.is_excluded = before
            case Repetition():
                self._add_repetition(part)

    def _add_alternation(self, parts: tuple[Pattern, ...]) -> None:
        fork = self.emit(Fork(()))
        targets: list[int] = []
        ends: list[int] = []
        for part in parts:
            targets.append(len(self.code))
            self.add(part)
            ends.append(self.emit(Fork(())))
        self.code[fork] = Fork(tuple(targets))
        for end in ends:
            self.code[end] = Fork((len(self.code),))

    def _add_repetition(self, part: Repetition) -> None:
        for _ in range(part.least):
            self.add(part.part)
        if part.most is None:
            self._add_loop(part)
            return
        forks: list[int] = []
        for _ in range(part.most - part.least):
            forks.append(self.emit(Fork(())))
            self.add(part.part)
        for fork in forks:
            self.code[fork] = self._choice(fork + 1, len(self.code), part.greedy)

    def _add_loop(self, part: Repetition) -> None:
        if _may_be_empty(part.part) and _may_prefer_less(part.part):
            raise OperatorTypeError(
                "match",
                "a part that is repeated without a bound may match no row, and prefers fewer rows; "
                "write a part that matches a row or more, as (A+?)* for (A*?)*",
            )
        fork = self.emit(Fork(()))
        self.add(part.part)
        self.emit(Fork((fork,)))
        self.code[fork] = self._choice(fork + 1, len(self.code), part.greedy)

    @staticmethod
    def _choice(more: int, out: int, greedy: bool) -> Fork:
        return Fork((more, out) if greedy else (out, more))


def _may_be_empty(part: Pattern) -> bool:
    match part:
        case Var():
            return False
        case Repetition(inner, least):
            return least == 0 or _may_be_empty(inner)
        case Alternation(parts):
            return any(map(_may_be_empty, parts))
        case Sequence(parts) | Permutation(parts):
            return all(map(_may_be_empty, parts))
        case Exclusion(inner):
            return _may_be_empty(inner)


def _may_prefer_less(part: Pattern) -> bool:
    """Return whether the part may prefer to map no row where it could map one."""
    match part:
        case Var():
            return False
        case Repetition(inner, least):
            may_stop = not part.greedy and (least == 0 or _may_be_empty(inner))
            return may_stop or _may_prefer_less(inner)
        case Alternation(parts):
            return any(map(_may_be_empty, parts[:-1])) or any(map(_may_prefer_less, parts))
        case Sequence(parts) | Permutation(parts):
            return any(map(_may_prefer_less, parts))
        case Exclusion(inner):
            return _may_prefer_less(inner)


def compiled(pattern: Pattern) -> tuple[Instruction, ...]:
    """Compile a pattern; the program starts at instruction 0.

    Raises:
        OperatorTypeError: the program is too large.
    """
    compiler = _Compiler()
    compiler.add(pattern)
    compiler.emit(Accept())
    return tuple(compiler.code)


def closures(program: tuple[Instruction, ...], start: int) -> tuple[int, ...]:
    """Return the Take and Accept instructions that ``start`` reaches without a row.

    They are in order of preference.
    """
    reachable: list[int] = []
    visited: set[int] = set()
    todo = [start]
    while todo:  # ends: each instruction is visited once
        at = todo.pop()
        if at in visited:
            continue
        visited.add(at)
        match program[at]:
            case Fork(targets):
                todo += reversed(targets)
            case _:
                reachable.append(at)
    return tuple(reachable)


def least_rows(pattern: Pattern) -> int:
    """Return the smallest number of rows of a match."""
    match pattern:
        case Var():
            return 1
        case Sequence(parts) | Permutation(parts):
            return sum(map(least_rows, parts))
        case Alternation(parts):
            return min(map(least_rows, parts))
        case Repetition(part, least):
            return least * least_rows(part)
        case Exclusion(part):
            return least_rows(part)


def has_exclusion(pattern: Pattern) -> bool:
    """Return whether the pattern excludes rows of a match from the output."""
    match pattern:
        case Exclusion():
            return True
        case Sequence(parts) | Permutation(parts) | Alternation(parts):
            return any(map(has_exclusion, parts))
        case Repetition(part):
            return has_exclusion(part)
        case Var():
            return False
