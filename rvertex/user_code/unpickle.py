"""Unpickles plans and queries that another process of the user pickled.

A pickle contains the classes and functions of the query file, but only the names of classes and
functions in other modules. A worker must be able to import these modules, unchanged. Otherwise the
error names the module, and the host ends permanently, because a restart would fail again
(:data:`UNLOADABLE`).

Invariant: only bytes that this user's own processes wrote are unpickled, never unrequested bytes
from the network.
"""

from __future__ import annotations

import io
import pickle
import socket
from typing import Any

from rvertex.user_code.code import as_planned, as_unchanged
from rvertex.user_code.errors import UnknownCodeError, reason_of
from rvertex.user_code.stored import MOVED

#: First words of the reason for which a host ends if it cannot load its plan.
UNLOADABLE = "the plan cannot be loaded: "


class _Reader(pickle.Unpickler):
    """An unpickler whose errors name missing code. ``to_run``: changed code is an error."""

    def __init__(self, data: bytes, *, to_run: bool) -> None:
        super().__init__(io.BytesIO(data))
        self._to_run = to_run

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return the class or function of that name. Importing a module may raise any error."""
        module_name, global_name = MOVED.get((module_name, global_name), (module_name, global_name))
        try:
            target = super().find_class(module_name, global_name)
        except Exception as error:
            where = socket.gethostname()
            name = f"{module_name}.{global_name}"
            raise UnknownCodeError(name, where, reason_of(error)) from error
        return as_unchanged if self._to_run and target is as_planned else target


def load_shipped(data: bytes, *, to_run: bool) -> Any:
    """Unpickle a plan or query. ``to_run``: its code will be called.

    Raises:
        UnknownCodeError: it names a class or a function that cannot be imported here.
        ChangedCodeError: code to run has changed since it was pickled.
    """
    return _Reader(data, to_run=to_run).load()
