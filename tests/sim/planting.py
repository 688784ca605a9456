"""Planted bugs: replacements of production functions while a simulation runs."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Mutant:
    """A replacement of ``owner.name`` and the faults under which it shows.

    A name that no longer exists is an error.
    """

    owner: Any
    name: str
    new: Any
    kinds: tuple[str, ...] = ()
    #: Further replacements of the same mutant.
    more: tuple[tuple[Any, str, Any], ...] = ()
    #: It shows in jobs over live logs.
    live: bool = False
    #: It shows in jobs with deliveries.
    deliver: bool = False
    #: It shows in jobs over logs that get partitions.
    grow: bool = False
    #: It shows in jobs over rows whose ends arrive later.
    open_rows: bool = False
    #: It shows in jobs that users change.
    change: bool = False

    @contextmanager
    def planted(self) -> Iterator[None]:
        """A context in which the mutant is active."""
        with ExitStack() as stack:
            for patch in ((self.owner, self.name, self.new), *self.more):
                stack.enter_context(mock.patch.object(*patch))
            yield
