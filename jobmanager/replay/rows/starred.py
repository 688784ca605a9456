"""Replaces the secrets in the code of a capsule by stars, so that the code still runs."""

from __future__ import annotations

import ast
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.secret_values import has_literal_password, is_reference, is_secret_option, with_stars

if TYPE_CHECKING:
    from collections.abc import Iterator


def starred(code: bytes, secrets: set[str], *, is_python: bool) -> bytes:
    """Return the code without ``secrets``, and without other text that a name calls a secret."""
    for secret in sorted(secrets, key=len, reverse=True):
        code = code.replace(secret.encode(), b"*" * len(secret.encode()))
    if not is_python:
        return with_stars(code.decode(errors="surrogateescape")).encode(errors="surrogateescape")
    try:
        found = dict(_texts(ast.parse(code)))
    except (SyntaxError, ValueError):
        return code  # no process can import it
    begins = [0, *accumulate(len(line) for line in code.splitlines(keepends=True))]
    for node, name in sorted(found.items(), key=lambda one: _place(one[0]), reverse=True):
        assert isinstance(node.value, str)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        text = "*" * len(node.value) if is_secret_option(name) else with_stars(node.value)
        lo = begins[node.lineno - 1] + node.col_offset
        hi = begins[node.end_lineno - 1] + node.end_col_offset
        code = code[:lo] + repr(text).encode() + code[hi:]
    return code


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _texts(tree: ast.AST) -> Iterator[tuple[ast.Constant, str]]:
    """The texts that are secrets, each with the name of its variable, argument or key."""
    for parent in ast.walk(tree):
        for value, name in _named(parent):
            if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
                continue
            text = value.value
            is_secret = is_secret_option(name) and not is_reference(text) and not _is_type(text)
            if (is_secret and text) or has_literal_password(text):
                yield value, name


def _is_type(text: str) -> bool:
    """Whether a text declares the type of a column."""
    try:
        return bool(pa.type_for_alias(text.partition("<")[0].partition("[")[0]))
    except ValueError:
        return "<" in text


def _named(node: ast.AST) -> Iterator[tuple[ast.expr | None, str]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((value, _name(target)) for target in targets)
        case ast.AnnAssign(target=target, value=value):
            yield value, _name(target)
        case ast.keyword(arg=name, value=value):
            yield value, "" if name is None or name.lower() == "token" else name
        case ast.Dict(keys=keys, values=values):
            yield from ((value, _option(key)) for key, value in zip(keys, values, strict=True))
        case ast.arguments(args=args, defaults=defaults):
            pairs = zip(reversed(args), reversed(defaults), strict=False)
            yield from ((value, arg.arg) for arg, value in pairs)
        case ast.Call(args=args):
            yield from ((value, "") for value in args)


def _option(key: ast.expr | None) -> str:
    """The name of an option; a key ``token`` is more often a column."""
    name = _name(key)
    return "" if name.lower() == "token" else name


def _name(target: ast.expr | None) -> str:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return name
        case ast.Subscript(slice=key):
            return _name(key)
        case _:
            return ""
