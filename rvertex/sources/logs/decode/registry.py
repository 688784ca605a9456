"""A client of schema registries over HTTP, with Confluent's interface."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from typing import Any

from rstream.secret_values import user_of, without_user
from rvertex.sources.files import first_line
from rvertex.sources.logs.decode.avro_schema import AvroSchema, parse_avro_schema, with_types
from rvertex.sources.logs.errors import LogNotFoundError, LogUnreachableError, RegistryRefusedError

ANSWER_S_MAX = 10.0
_ANSWER_BYTES_MAX = 4 << 20
#: HTTP statuses that mean a wrong user or password.
_REFUSED = (401, 403)
_USER_INFO = '"schema.registry.basic.auth.user.info"'


class SchemaRegistry:
    """Requests schemas from the registry, each schema once."""

    def __init__(self, url: str, user_info: str = "") -> None:
        """Connect to ``url``.

        ``user_info``: ``user:password``, if required and not part of ``url``.
        """
        self._url = without_user(url.rstrip("/"))
        self._user_info = user_info or user_of(url)
        self._known: dict[int, AvroSchema | None] = {}

    def schema(self, number: int) -> AvroSchema | None:
        """Return the schema with that number; None if it is missing or not an Avro schema.

        Raises:
            LogUnreachableError: the registry does not answer.
            RegistryRefusedError: it rejects the user or password.
        """
        if number not in self._known:
            self._known[number] = self._schema(self._get(f"/schemas/ids/{number}"))
        return self._known[number]

    def latest(self, subject: str) -> AvroSchema:
        """Return the newest schema of a subject.

        Raises:
            LogNotFoundError: the subject has no schema.
            LogUnreachableError: the registry does not answer.
            RegistryRefusedError: it rejects the user or password.
        """
        schema = self._schema(self._get(_version(subject, "latest")))
        if schema is None:
            raise LogNotFoundError(
                self._url, f"the schema registry has no Avro record for the subject {subject}"
            )
        return schema

    def _schema(self, answer: dict[str, Any] | None) -> AvroSchema | None:
        if answer is None or answer.get("schemaType", "AVRO") != "AVRO":
            return None
        try:
            return with_types(parse_avro_schema(str(answer["schema"])), self._referred(answer, []))
        except (KeyError, ValueError, TypeError):
            return None

    def _referred(self, answer: dict[str, Any], known: list[str]) -> list[Any]:
        """Return the types of other subjects that a schema uses, in the order of dependency."""
        types: list[Any] = []
        for reference in answer.get("references") or ():
            path = _version(str(reference["subject"]), str(reference["version"]))
            if path not in known:
                known.append(path)
                other = self._get(path) or {}
                types += [*self._referred(other, known), json.loads(str(other["schema"]))]
        return types

    def _get(self, path: str) -> dict[str, Any] | None:
        request = urllib.request.Request(self._url + path)
        if self._user_info:
            token = b64encode(self._user_info.encode()).decode()
            request.add_header("Authorization", f"Basic {token}")
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S_MAX) as response:
                answer = json.loads(response.read(_ANSWER_BYTES_MAX))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            if error.code in _REFUSED:
                reason = f"HTTP {error.code} {error.reason}; give {_USER_INFO} in config="
                raise RegistryRefusedError(f"schema registry {self._url}", reason) from error
            raise LogUnreachableError(self._url, f"HTTP {error.code}") from error
        except (OSError, ValueError) as error:
            raise LogUnreachableError(self._url, first_line(error)) from error
        return answer if isinstance(answer, dict) else None


def _version(subject: str, version: str) -> str:
    return f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}"
