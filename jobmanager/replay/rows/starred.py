"""Replaces the secrets in the code of a capsule by stars, so that the code still runs."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rstream.secret_values import is_reference, is_secret_option, with_stars

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The text for a file that Python cannot parse, because its secrets cannot be recognized.
LEFT_OUT = b"# The capsule does not have this file: it is not valid Python.\n"
#: Functions whose first argument is the name of a value, not the value.
_LOOKUPS = ("get", "getenv", "pop", "column", "field", "col")
_NAME = re.compile(r"[\w.-]+")
#: A character for each expression between two texts of an f-string or a sum.
_OTHER = "\ufffc"


def starred(code: bytes, secrets: set[str], *, is_python: bool) -> bytes:
    """Return the code without ``secrets``, and without other text that a name calls a secret."""
    plain = sorted(filter(None, secrets), key=len, reverse=True)
    if not is_python:
        text = code.decode(errors="surrogateescape")
        return _without(text, plain).encode(errors="surrogateescape")
    try:
        return _starred_python(code, plain)
    except (SyntaxError, ValueError, RecursionError, tokenize.TokenError):
        return LEFT_OUT


def _without(text: str, secrets: Sequence[str]) -> str:
    text = with_stars(text)
    for secret in secrets:
        text = text.replace(secret, "*" * len(secret))
    return text


def _starred_python(code: bytes, secrets: Sequence[str]) -> bytes:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(code).readline)
    text = io.TextIOWrapper(io.BytesIO(code), encoding).read()
    tree = ast.parse(text)
    edits = [*_in_comments(text, secrets), *_in_code(tree, _star(tree, secrets))]
    if not edits:
        return code
    data = text.encode()  # the syntax tree gives columns as offsets in UTF-8
    begins = [0, *accumulate(len(line) + 1 for line in data.split(b"\n"))]
    for (line, column), (end_line, end_column), new in sorted(edits, reverse=True):
        lo, hi = begins[line - 1] + column, begins[end_line - 1] + end_column
        data = data[:lo] + new.encode() + data[hi:]
    code = data.decode().encode(encoding, errors="backslashreplace")
    ast.parse(code)
    return code


#: Begin and end as line and offset in its UTF-8 bytes, and the new text.
Edit = tuple[tuple[int, int], tuple[int, int], str]


def _in_comments(text: str, secrets: Sequence[str]) -> Iterator[Edit]:
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        new = _without(token.string, secrets)
        if token.type == tokenize.COMMENT and new != token.string:
            line, column = token.start
            lo = len(lines[line - 1][:column].encode())
            yield (line, lo), (line, lo + len(token.string.encode())), new


def _in_code(node: ast.AST, changed: set[ast.AST]) -> Iterator[Edit]:
    """Yield the edits that put changed constants into the code, f-strings as a whole."""
    if isinstance(node, ast.JoinedStr | ast.Constant):
        if not changed.isdisjoint(ast.walk(node)):
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            end = node.end_lineno, node.end_col_offset
            yield (node.lineno, node.col_offset), end, ast.unparse(node)
        return
    for child in ast.iter_child_nodes(node):
        yield from _in_code(child, changed)


def _star(tree: ast.AST, secrets: Sequence[str]) -> set[ast.AST]:
    """Replace the secrets in the constants of a syntax tree. Return the changed constants."""
    nodes = list(ast.walk(tree))
    before = {node: node.value for node in nodes if isinstance(node, ast.Constant)}
    for node in nodes:
        for value, name in _named(node):
            for constant in _texts(value) if is_secret_option(name) else ():
                if _is_secret(_text(constant)):
                    _replace(constant, "*" * len(_text(constant)))
    for node in nodes:
        pieces = list(_pieces(node))
        new = _without("".join(map(_text, pieces)), secrets)
        for piece in pieces:
            length = len(_text(piece))
            _replace(piece, new[:length])
            new = new[length:]
    return {node for node, value in before.items() if node.value != value}


def _pieces(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of one text: a constant, an f-string, or operands joined by +."""
    match node:
        case ast.JoinedStr(values=values):
            yield from values
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            for part in (left, right):
                yield from list(_pieces(part)) or [part]
        case ast.Constant():
            yield node


def _text(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Constant(value=bytes(data)):
            return data.decode(errors="surrogateescape")
        case ast.Constant(value=int(number)):
            return str(number)
        case _:
            return _OTHER


def _replace(node: ast.AST, text: str) -> None:
    if not isinstance(node, ast.Constant) or text == _text(node):
        return
    if isinstance(node.value, bytes):
        node.value = text.encode(errors="surrogateescape")
    else:
        node.value = text if isinstance(node.value, str) else 0


def _texts(value: ast.AST) -> Iterator[ast.Constant]:
    """Yield the texts in a value, without the keys of dicts and lookups, and without formats."""
    children: list[Any]
    match value:
        case ast.Constant(value=str() | bytes()):
            yield value
            return
        case ast.Subscript(value=found, slice=ast.Constant()):
            children = [found]
        case ast.Dict(values=values):
            children = values
        case ast.FormattedValue(value=found):
            children = [found]
        case ast.Call(
            func=(ast.Attribute(attr=name) | ast.Name(id=name)) as func, args=args, keywords=rest
        ) if name in _LOOKUPS:
            children = [func, *args[1:], *rest]
        case _:
            children = [*ast.iter_child_nodes(value)]
    for child in children:
        yield from _texts(child)


def _is_secret(text: str) -> bool:
    is_separator = not text.strip() or (len(text) == 1 and not text.isalnum())
    return not is_separator and not is_reference(text) and not _is_type(text)


def _is_type(text: str) -> bool:
    """Return whether a text declares the type of a column."""
    try:
        return bool(pa.type_for_alias(text.partition("<")[0].partition("[")[0]))
    except ValueError:
        return "<" in text and text.endswith(">")


def _named(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield values, each with a name that it belongs to."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((value, name) for target in targets for name in _names(target))
        case (
            ast.AnnAssign(target=target, value=ast.expr() as value)
            | ast.AugAssign(target=target, value=value)
            | ast.NamedExpr(target=target, value=value)
        ):
            yield from ((value, name) for name in _names(target))
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            yield from ((value, _option(name)) for name in _names(target))
        case ast.keyword(arg=str(name), value=value):
            yield value, _option(name, value)
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            yield from ((text, _option(_text(key), text)) for key, text in pairs if key is not None)
        case ast.Tuple(elts=[ast.Constant() as key, value]):
            yield value, _option(_text(key))
        case ast.arguments():
            last = reversed([*node.posonlyargs, *node.args])
            defaults = [*zip(last, reversed(node.defaults), strict=False)]
            only = zip(node.kwonlyargs, node.kw_defaults, strict=True)
            yield from ((text, arg.arg) for arg, text in [*defaults, *only] if text is not None)
        case ast.Call(args=args, keywords=keywords):
            for place, arg in enumerate(args, 1):
                if isinstance(arg, ast.Constant) and _NAME.fullmatch(_text(arg)):
                    yield from ((value, _option(_text(arg))) for value in args[place:])
                    yield from ((value.value, _option(_text(arg))) for value in keywords)
        case ast.Compare(left=left, comparators=[right]):
            yield from ((right, _option(name)) for name in _names(left))
        case ast.FunctionDef(name=name):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Constant):
                    yield inner.value, name


def _names(target: ast.AST) -> Iterator[str]:
    for node in ast.walk(target):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                yield name


def _option(name: str, value: ast.AST | None = None) -> str:
    """Return the name of an option; empty for a ``token`` that is a column or a word."""
    is_column = name.lower() == "token" and not isinstance(value, ast.Constant)
    return "" if is_column else name
