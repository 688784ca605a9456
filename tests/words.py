"""The words to avoid, with replacements, and the lines of the project that have them.

``python -m tests.words [PART OF A PATH]`` prints these lines; ``--rewrite`` lowers the numbers in
``tests/golden/words.json``.
"""

from __future__ import annotations

import ast
import functools
import io
import json
import re
import sys
import tokenize
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tests.rooms import FILES, ROOT, nodes, walk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINE_MAX = 100
PARAGRAPH_LINES_MAX = 5
KNOWN = ROOT / "tests" / "golden" / "words.json"

#: A pattern in text that people read, and the plain words for it.
WORDS = {
    # The field's verb.
    r"\btold\b": "sent, reported, notified",
    r"\btells?\b": "reports, sends, distinguishes; or name the message",
    r"\bsaid\b": "given, declared, reported",
    r"\bsays?\b": "states, declares, reports",
    r"\bis asked\b|\bare asked\b|\basked (of|for|what|whether|who)\b": "requested, queried",
    r"\bputs? out\b|\bputting out\b": "emits",
    r"\bgo(es)? on\b|\bgoing on\b|\bwent on\b": "continues, resumes",
    r"\blook(s|ed)? (at|into|for|what|whether|after)\b": "checks, reads, inspects",
    r"\blies?\b|\blay\b|\bstood\b": "is",
    r"\bstands?\b(?! for\b)": "is",
    r"\bhas come\b|\bhave come\b|\bcame\b": "arrived, was reached",
    r"\bgive [a-z_]+=": "set the option",
    r"\bbegins? anew\b|\banew\b": "again, from the start",
    r"\bread over\b": "ignored",
    r"\btakes? over from\b": "replaces",
    # Name the thing.
    r"\bwhat (it|they|was|were|has|have|had|came|comes|goes|lies|stands|stood|remains|waits)\b": (
        "the noun: the rows, the offsets, the state"
    ),
    r"\bwhat (is|are) (not|no|left|still|there|in|of|at|on|below|above|behind|read|kept)\b": (
        "the noun: the remaining rows, the live files"
    ),
    r"\b(those|that) (that|which|who)\b|\bthose of\b|\bthe ones? (that|which|of)\b": "the noun",
    r"\b([Ww]hoever|[Ww]ho (reads|writes|runs|asks|wants|needs|waits|goes))\b": (
        "a reader, a writer, the caller"
    ),
    r"\bwhatever\b": "regardless of, any",
    r"\b[Nn]obody\b|\bno one\b": "no reader, no process: name who",
    r"\bnowhere\b": "in no file, in no store: name where",
    r"\b[Ss]o (many|long|much)\b(?! (as|that)\b)": "the number, the time",
    r"\b(is|are|it is) of (a|an|the|no|one|several|its|which)\b": "has, belongs to, or the noun",
    r"\bof no\b": "no, without",
    r"\bof (its|their|his) own\b": "its own",
    r"\bof several\b": "on ties, with several",
    # Connectives that English has left behind.
    r"\bbeforehand\b": "in advance",
    r"\b(thereby|thereof|therein|thereupon|henceforth|herein|wherein)\b": "so, of it, in it",
    r"\bbut for\b": "except",
    r"\bon account of\b": "because of",
    r"\bfor good\b": "permanently",
    r"\ball the same\b": "anyway",
    r"\b(is|are|was|were) to be\b": "must be, will be",
    r"\bthe very\b": "the same",
    r"\bfrom (then|there) on\b": "after that",
    r"\bnot (one|any) of which\b": "none",
    r"\bhow (it|they) (is|are) to\b": "how to",
    r"\bis no matter\b|\bof no matter\b|\bno matter\b": "is ignored, regardless of",
    r"\bthe least far\b|\bleast far\b": "nearest, smallest",
}
#: Further patterns for messages and help.
MESSAGE_WORDS = {
    r"\b(is|are) refused\b": "say what happened: cannot, needs, must",
    r"\bsettled\b|\bis alive\b|\bare alive\b": "final; live",
    r"\b(lane|twin|letter)\b(?! (file|row|topic|output))": "the field's word of the glossary",
    r"\bit is not (below|above)\b": "must be 0 or more",
}
#: Patterns in names of functions, classes, parameters and variables.
NAMES = {
    r"(^|_)told(_|$)": "reported, sent, position",
    r"(^|_)said(_|$)": "declared, reported, message",
    r"(^|_)asked(_|$)": "request, arguments, query",
    r"(^|_)seen(_|$)": "count, observed, latest",
    r"(^|_)nobody(_|$)": "unused, unread",
    r"(^|_)mine(_|$)": "own, local",
    r"works_up|^lots$|(^|_)came(_|$)|(^|_)lies(_|$)|(^|_)anew(_|$)": "the field's word",
}

#: Any word to avoid, by kind of text.
_ANY = {
    **dict.fromkeys(("page", "docstring", "comment"), re.compile("|".join(WORDS))),
    "message": re.compile("|".join(WORDS | MESSAGE_WORDS)),
    "name": re.compile("|".join(NAMES)),
}


class Finding(NamedTuple):
    kind: str  #: Of the text: page, message, docstring, comment, name, long line, paragraph.
    path: str
    line: int
    text: str
    instead: str


def findings(path: Path) -> Iterator[Finding]:
    """All lines of a file with such words, and lines that are too long."""
    name = path.relative_to(ROOT).as_posix()
    parts = _page(path) if path.suffix == ".md" else _module(path)
    for kind, line, text in parts:
        if kind in _ANY and not _ANY[kind].search(text):
            continue  # most lines have none of them
        if kind in ("long line", "paragraph"):
            yield Finding(kind, name, line, text, f"at most {LINE_MAX} characters, 5 lines")
            continue
        words = WORDS | MESSAGE_WORDS if kind == "message" else NAMES if kind == "name" else WORDS
        prose = text if kind == "name" else re.sub(r"``[^`]*``|`[^`]*`|\]\([^)]*\)", "", text)
        instead = [plain for word, plain in words.items() if re.search(word, prose)]
        if instead:
            yield Finding(kind, name, line, text.strip(), "; ".join(instead))


def pages() -> list[Path]:
    """The pages of the project, except the change fragments."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])


def modules() -> list[Path]:
    """The files of the product."""
    return [ROOT / "streamscope.py", *(ROOT / file for file in FILES)]


def _page(path: Path) -> Iterator[tuple[str, int, str]]:
    """The prose lines of a page, and those that are too long."""
    in_code, paragraph = False, 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        in_code ^= line.lstrip().startswith("```")
        if in_code or line.lstrip().startswith("```"):
            paragraph = 0
            continue
        yield "page", number, line
        is_text = bool(line.strip()) and not re.match(r"\||#|<|\s{4,}\S|!?\[|\s*- `[^`]*`$", line)
        if is_text and len(line) > LINE_MAX and path.name != "cli.md":  # generated
            yield "long line", number, line
        starts = re.match(r"\s*([-*]|\d+\.) ", line) is not None
        paragraph = 0 if not is_text else 1 if starts else paragraph + 1
        if paragraph == PARAGRAPH_LINES_MAX + 1:
            yield "paragraph", number, line


def _module(path: Path) -> Iterator[tuple[str, int, str]]:
    """The comments, docstrings, messages and names of a module."""
    source = path.read_text()
    comments = any(_ANY["comment"].search(line.partition("#")[2]) for line in source.split("\n"))
    for token in tokenize.generate_tokens(io.StringIO(source).readline) if comments else ():
        if token.type == tokenize.COMMENT:
            yield "comment", token.start[0], token.string
    documents = set()
    file = path.relative_to(ROOT).as_posix()
    for node in nodes(file) if file in FILES else walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                documents.add(id(first.value))
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and " " in node.value:
                kind = "docstring" if id(node) in documents else "message"
                for offset, line in enumerate(node.value.split("\n")):
                    yield kind, node.lineno + offset * (kind == "docstring"), line
        elif name := _name(node):
            yield "name", getattr(node, "lineno", 0), name


def _name(node: ast.AST) -> str:
    """The name that a node defines, or an empty text."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) else ""


def folder_of(finding: Finding) -> str:
    """Where a finding is counted: kind and page, or kind and the first two folders."""
    parts = finding.path.split("/")
    if finding.path.endswith(".md"):
        where = finding.path if "adr" not in parts else "docs/adr"
    else:
        where = "/".join(parts[:2] if len(parts) > 2 else parts[:1])
    return f"{where}: {finding.kind}"


@functools.cache
def all_findings() -> tuple[Finding, ...]:
    return tuple(finding for path in (*pages(), *modules()) for finding in findings(path))


def counts() -> dict[str, int]:
    return dict(sorted(Counter(map(folder_of, all_findings())).items()))


def known() -> dict[str, int]:
    numbers: dict[str, int] = json.loads(KNOWN.read_text())
    return numbers


def _rewrite() -> None:
    """Lower the known numbers; raising one needs an editor, and a reason."""
    before = known() if KNOWN.exists() else counts()
    lower = {k: min(n, before.get(k, 0)) for k, n in counts().items() if k in before}
    KNOWN.write_text(json.dumps(lower, indent=1) + "\n")


if __name__ == "__main__":
    if "--rewrite" in sys.argv:
        _rewrite()
    else:
        for one in all_findings():
            if all(part in f"{one.path} {one.kind}" for part in sys.argv[1:]):
                print(f"{one.path}:{one.line}: {one.kind}: {one.text}  -> {one.instead}")
