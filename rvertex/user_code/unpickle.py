"""Reading back what was pickled for another process: a plan that travels to workers, a query.

What a query file defines travels by value; classes and functions of other modules are only named,
and have to be importable where they are read. One that is not is told by name, and a host that
meets it ends in a way that no restart can mend (:data:`UNLOADABLE`).

Invariant: only bytes that this user's own processes wrote are read here, never what came over the
network unasked.
"""

from __future__ import annotations

import io
import pickle
import socket
from typing import Any

from rvertex.user_code.errors import UnknownCodeError

#: How the end of a host begins that cannot read its plan.
UNLOADABLE = "the plan cannot be loaded: "


class _Reader(pickle.Unpickler):
    """Says what could not be found."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """The class or function of that name; importing a module may raise anything."""
        try:
            return super().find_class(module_name, global_name)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            where = socket.gethostname()
            raise UnknownCodeError(f"{module_name}.{global_name}", where, reason) from error


def load_shipped(data: bytes) -> Any:
    """What was pickled.

    Raises:
        UnknownCodeError: it names a class or a function that cannot be imported here.
    """
    return _Reader(io.BytesIO(data)).load()
