"""The bytes of messages: a msgpack map ``{"v": version, "t": type, field: value...}``.

Decoding checks the version, the fields and their types, and nothing is ever unpickled.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, Generic, TypeVar

import msgpack

from rvertex.errors import InvalidMessageError

PROTOCOL_VERSION = 5
M = TypeVar("M")


class MessageCodec(Generic[M]):
    """Bytes of the messages of one closed set of types."""

    def __init__(self, kinds: tuple[type, ...]) -> None:
        self._kinds = {kind.__name__: kind for kind in kinds}

    def encode(self, message: M) -> bytes:
        """The message as msgpack."""
        assert type(message).__name__ in self._kinds, message
        return msgpack.packb(  # type: ignore[no-any-return]
            {"v": PROTOCOL_VERSION, "t": type(message).__name__, **_plain(message)}
        )

    def decode(self, data: bytes) -> M:
        """The message in ``data``.

        Raises:
            InvalidMessageError: not msgpack, another version, an unknown type, a wrong field.
        """
        try:
            fields = msgpack.unpackb(data)
        except (ValueError, msgpack.UnpackException) as error:
            raise InvalidMessageError(f"not msgpack: {error}") from error
        if not isinstance(fields, dict) or fields.pop("v", None) != PROTOCOL_VERSION:
            raise InvalidMessageError(f"not protocol version {PROTOCOL_VERSION}")
        kind = self._kinds.get(fields.pop("t", ""))
        if kind is None:
            raise InvalidMessageError("unknown type of message")
        return _build(kind, fields)  # type: ignore[no-any-return]


def _plain(value: Any) -> Any:
    """What msgpack can write: dataclasses as maps, also in tuples, which are all of one kind."""
    if isinstance(value, tuple):
        return [_plain(v) for v in value] if value and dataclasses.is_dataclass(value[0]) else value
    if dataclasses.is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in _hints(type(value))}
    return value


def _build(kind: type, fields: Any) -> Any:
    if not isinstance(fields, dict):
        raise InvalidMessageError(f"{kind.__name__}: expected a map")
    hints = _hints(kind)
    if fields.keys() != hints.keys():
        raise InvalidMessageError(f"{kind.__name__}: fields {sorted(fields)}")
    return kind(**{name: _value(kind, name, hints[name], fields[name]) for name in hints})


def _value(kind: type, name: str, hint: Any, value: Any) -> Any:
    if isinstance(hint, types.GenericAlias):
        item = typing.get_args(hint)[0]
        if not isinstance(value, list):
            raise InvalidMessageError(f"{kind.__name__}.{name}: expected a list")
        if all(type(v) is item for v in value):
            return tuple(value)
        return tuple(_value(kind, name, item, v) for v in value)
    if dataclasses.is_dataclass(hint):
        return _build(hint, value)  # type: ignore[arg-type]
    if type(value) is not hint:
        raise InvalidMessageError(f"{kind.__name__}.{name}: expected {hint.__name__}")
    return value


_HINTS: dict[type, dict[str, Any]] = {}


def _hints(kind: type) -> dict[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = typing.get_type_hints(kind)
    return _HINTS[kind]
