"""Small files of a job's root, with a checksum: JSON for people and programs, pickles for resume.

A JSON document ends with the field ``checksum``, over all bytes before it. A pickle file starts
with a magic number and the digest of the pickle, which is checked before unpickling. So a truncated
or changed file is an error and is never misread. A JSON file without ``checksum`` was written by
hand or by an earlier version. It is read only if the caller can handle any content.

A file that one owner after another replaces has *versions*: folders that sort by the owner's epoch
and then by number, and the newest counts. An owner that was suspended cannot replace or delete a
later one's file, even if it checked the ownership before.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rstream.store.protocol import BlobStore

_CHECKSUM_BYTES = 16
_FIELD = b',\n"checksum": "'
_END = b'"\n}'
#: The format of jobs whose ``job.json`` has no field ``format``.
_FIRST_FORMAT = 1
_PICKLE_MAGIC = b"SSPICKLE"
#: The name of a version's folder: the epoch of its owner, and a number.
VERSION = re.compile(r"\d{10}\.\d{6}")


class BrokenDocumentError(ValueError):
    """The bytes of a file have changed since they were written. The text gives the details."""


class NoChecksumError(BrokenDocumentError):
    """The document is valid JSON but has no checksum, so it may have been changed."""


def json_document(fields: dict[str, Any]) -> bytes:
    """Return JSON with one line per field and per row of a list, so that people can read it."""
    assert fields, "a document has fields"
    rows = [f"{json.dumps(name)}: {_rows(field)}" for name, field in fields.items()]
    body = ("{\n" + ",\n".join(rows)).encode()
    return body + _FIELD + _digest(body).hex().encode() + _END


def read_json_document(data: bytes, *, may_be_plain: bool = False) -> dict[str, Any]:
    """Check a document and return its fields, without the checksum.

    ``may_be_plain``: accept a document without a checksum; any of its fields may be missing.

    Raises:
        BrokenDocumentError: the bytes are not a document, or have changed.
        NoChecksumError: the document has no checksum.
    """
    if not data:
        raise BrokenDocumentError("it is empty")
    body, field, _ = data.rpartition(_FIELD)
    if field and data != body + _FIELD + _digest(body).hex().encode() + _END:
        raise BrokenDocumentError("its checksum does not match")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BrokenDocumentError("it is not valid JSON: truncated or overwritten") from error
    if not isinstance(document, dict):
        raise BrokenDocumentError("it holds no fields")
    if not field and not may_be_plain:
        raise NoChecksumError("it has no checksum, so it was edited by hand or damaged")
    document.pop("checksum", None)
    return document


def read_job_document(data: bytes, formats: range) -> dict[str, Any]:
    """Return the fields of ``job.json``.

    Early versions wrote no checksum; of their files only the format is returned. ``formats``: the
    formats that this version reads.

    Raises:
        BrokenDocumentError: see :func:`read_json_document`.
    """
    try:
        return read_json_document(data)
    except NoChecksumError:
        version = read_json_document(data, may_be_plain=True).get("format", _FIRST_FORMAT)
        if version in formats:
            raise
        return {"format": version}


def pickle_document(value: object) -> bytes:
    """Pickle ``value``, with the classes and functions of query files by value."""
    from rvertex.user_code.pickled import pickled

    data = pickled(value)
    return _PICKLE_MAGIC + _digest(data) + data


def read_pickle_document(data: bytes, *, to_run: bool = False) -> Any:
    """Unpickle a value. The caller must trust all who could write the file.

    ``to_run``: whether the caller will call code in the value, so it must not have changed.

    Raises:
        BrokenDocumentError: the bytes have changed; no byte was unpickled.
        UnknownCodeError: the pickle names a class or a function that cannot be imported here.
        ChangedCodeError: code to run has changed since the pickle was written.
    """
    if not data:
        raise BrokenDocumentError("it is empty")
    start = len(_PICKLE_MAGIC) + _CHECKSUM_BYTES
    if not data.startswith(_PICKLE_MAGIC):
        raise BrokenDocumentError("it has another format")
    if _digest(data[start:]) != data[len(_PICKLE_MAGIC) : start]:
        raise BrokenDocumentError("its checksum does not match")
    from rvertex.user_code.unpickle import load_shipped

    return load_shipped(data[start:], to_run=to_run)


def next_version(store: BlobStore, folder: str, epoch: int) -> str:
    """Return a version that sorts after all others in ``folder`` of this owner and earlier ones."""
    depth, own = folder.count("/") + 1, f"{epoch:010d}."
    names = {path.split("/")[depth] for path in store.list(folder)}
    versions = [name for name in names if VERSION.fullmatch(name) and name.startswith(own)]
    return f"{own}{max((int(name.removeprefix(own)) for name in versions), default=0) + 1:06d}"


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES).digest()


def _rows(field: Any) -> str:
    if not isinstance(field, list):
        return json.dumps(field)
    return "[\n" + ",\n".join(map(json.dumps, field)) + "\n]"
