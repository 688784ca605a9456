"""Reading back what was pickled for another process: a plan that travels to workers, a query.

What a query file defines travels by value; classes and functions of other modules are only named,
and have to be importable, and unchanged, where they run. One that is not is told by name, and a
host that meets it ends in a way that no restart can mend (:data:`UNLOADABLE`).

Invariant: only bytes that this user's own processes wrote are read here, never what came over the
network unasked.
"""

from __future__ import annotations

import io
import pickle
import socket
from typing import Any

from rvertex.user_code.code import as_planned, as_unchanged
from rvertex.user_code.errors import UnknownCodeError, reason_of
from rvertex.user_code.stored import MOVED

#: How the end of a host begins that cannot read its plan.
UNLOADABLE = "the plan cannot be loaded: "


class _Reader(pickle.Unpickler):
    """Says what could not be found. ``to_run``: code that has changed since is refused."""

    def __init__(self, data: bytes, *, to_run: bool) -> None:
        super().__init__(io.BytesIO(data))
        self._to_run = to_run

    def find_class(self, module_name: str, global_name: str) -> Any:
        """The class or function of that name; importing a module may raise anything."""
        module_name, global_name = MOVED.get((module_name, global_name), (module_name, global_name))
        try:
            found = super().find_class(module_name, global_name)
        except Exception as error:
            where = socket.gethostname()
            name = f"{module_name}.{global_name}"
            raise UnknownCodeError(name, where, reason_of(error)) from error
        return as_unchanged if self._to_run and found is as_planned else found


def load_shipped(data: bytes, *, to_run: bool) -> Any:
    """What was pickled. ``to_run``: the code in it is going to be called.

    Raises:
        UnknownCodeError: it names a class or a function that cannot be imported here.
        ChangedCodeError: code to be run is not what it was when it was pickled.
    """
    return _Reader(data, to_run=to_run).load()
