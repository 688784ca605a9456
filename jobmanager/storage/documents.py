"""Small files of a job's root, with a checksum: JSON for people and programs, pickles for resume.

A JSON document ends with the field ``checksum``, over all bytes before it. A pickle follows a magic
number and the digest of its bytes, which is checked before unpickling. So a cut or changed file is
refused and never misread. A JSON file without the field was written by hand or by an earlier
version: it is read where the caller can do with whatever it says.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

_CHECKSUM_BYTES = 16
_FIELD = b',\n"checksum": "'
_END = b'"\n}'
#: Of jobs that do not say it.
_FIRST_FORMAT = 1
_PICKLE_MAGIC = b"SSPICKLE"


class BrokenDocumentError(ValueError):
    """The bytes are not what was written; the text says in what way."""


class NoChecksumError(BrokenDocumentError):
    """The document is whole, but nothing shows that it is what was written."""


def json_document(fields: dict[str, Any]) -> bytes:
    """As JSON, a line for each field and each row of a list: Python indents no numbers."""
    assert fields, "a document has fields"
    rows = [f"{json.dumps(name)}: {_rows(field)}" for name, field in fields.items()]
    body = ("{\n" + ",\n".join(rows)).encode()
    return body + _FIELD + _digest(body).hex().encode() + _END


def read_json_document(data: bytes, *, may_be_plain: bool = False) -> dict[str, Any]:
    """The fields, without the checksum.

    ``may_be_plain``: without a checksum, too; the caller then takes no field for granted.

    Raises:
        BrokenDocumentError: the bytes are not those of a document.
        NoChecksumError: they are, but have no checksum.
    """
    if not data:
        raise BrokenDocumentError("it is empty")
    body, field, _ = data.rpartition(_FIELD)
    if field and data != body + _FIELD + _digest(body).hex().encode() + _END:
        raise BrokenDocumentError("its checksum does not match")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BrokenDocumentError("it is no JSON: cut short or overwritten") from error
    if not isinstance(found, dict):
        raise BrokenDocumentError("it holds no fields")
    if not field and not may_be_plain:
        raise NoChecksumError("it has no checksum, so it was edited by hand or damaged")
    found.pop("checksum", None)
    return found


def read_job_document(data: bytes, formats: range) -> dict[str, Any]:
    """What ``job.json`` says; of an earlier version, which wrote no checksum, its format alone.

    ``formats``: the formats that this version reads.

    Raises:
        BrokenDocumentError: see :func:`read_json_document`.
    """
    try:
        return read_json_document(data)
    except NoChecksumError:
        found = read_json_document(data, may_be_plain=True).get("format", _FIRST_FORMAT)
        if found in formats:
            raise
        return {"format": found}


def pickle_document(value: object) -> bytes:
    """``value`` as a pickle that classes and functions of query files are part of."""
    from rvertex.user_code.pickled import pickled

    data = pickled(value)
    return _PICKLE_MAGIC + _digest(data) + data


def read_pickle_document(data: bytes, *, to_run: bool = False) -> Any:
    """What was pickled. The caller trusts whoever could write the file.

    ``to_run``: the code in it is going to be called, so it has to be what it was.

    Raises:
        BrokenDocumentError: the bytes are not what was written; nothing was unpickled.
        UnknownCodeError: it names a class or a function that cannot be imported here.
        ChangedCodeError: code to be run is not what it was when it was written.
    """
    if not data:
        raise BrokenDocumentError("it is empty")
    start = len(_PICKLE_MAGIC) + _CHECKSUM_BYTES
    if not data.startswith(_PICKLE_MAGIC):
        raise BrokenDocumentError("it does not begin as it was written")
    if _digest(data[start:]) != data[len(_PICKLE_MAGIC) : start]:
        raise BrokenDocumentError("its checksum does not match")
    from rvertex.user_code.unpickle import load_shipped

    return load_shipped(data[start:], to_run=to_run)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES).digest()


def _rows(field: Any) -> str:
    if not isinstance(field, list):
        return json.dumps(field)
    return "[\n" + ",\n".join(map(json.dumps, field)) + "\n]"
