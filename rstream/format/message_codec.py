"""Encodes messages and stored notices as msgpack: ``[version, type, {field: value...}]``.

Messages on the wire have one version, because a host and its job manager run the same release.
Stored notices outlive a release, so a codec can accept older versions. A missing field takes its
default, and an unknown field is ignored. Data is never unpickled.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from rstream.errors import InvalidMessageError

PROTOCOL_VERSION = 6
M = TypeVar("M")

_ENVELOPE = msgspec.msgpack.Decoder(tuple[int, str, msgspec.Raw])


class MessageCodec(Generic[M]):
    """Encodes and decodes the messages of a fixed set of types."""

    def __init__(
        self, kinds: tuple[type, ...], *, version: int = PROTOCOL_VERSION, oldest: int | None = None
    ) -> None:
        """Make a codec for ``kinds``; ``oldest``: oldest version to decode; None: ``version``."""
        self._version, self._oldest = version, version if oldest is None else oldest
        self._decoders: dict[str, msgspec.msgpack.Decoder[Any]] = {
            kind.__name__: msgspec.msgpack.Decoder(kind) for kind in kinds
        }
        self._encoder = msgspec.msgpack.Encoder()

    def encode(self, message: M) -> bytes:
        """Encode the message as msgpack."""
        kind = type(message).__name__
        assert kind in self._decoders, message
        return self._encoder.encode((self._version, kind, message))

    def decode(self, data: bytes) -> M:
        """Decode the message in ``data``.

        Raises:
            InvalidMessageError: not msgpack, another version, an unknown type, a wrong field.
        """
        try:
            version, kind, fields = _ENVELOPE.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidMessageError(f"not a message: {error}") from error
        if not self._oldest <= version <= self._version:
            raise InvalidMessageError(
                f"{kind} has version {version}, this release reads {self._read()}"
            )
        decoder = self._decoders.get(kind)
        if decoder is None:
            raise InvalidMessageError(f"unknown type of message: {kind}")
        try:
            return decoder.decode(fields)  # type: ignore[no-any-return]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidMessageError(f"{kind}: {error}") from error

    def _read(self) -> str:
        oldest, newest = self._oldest, self._version
        return f"{newest}" if oldest == newest else f"{oldest} to {newest}"
