"""Build the documents as a site: ``python docs/site/build.py FOLDER`` (``make docs``).

A page keeps its place: ``docs/cli.md`` becomes ``docs/cli.html``, and a ``README.md`` becomes the
``index.html`` of its folder. A file that a page links to and that is no page is copied.
"""

from __future__ import annotations

import os.path
import re
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound
from reference import reference

if TYPE_CHECKING:
    from markdown_it.token import Token

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CONTENTS = Path("docs/README.md")
REFERENCE = Path("docs/api.md")
CODE = HtmlFormatter(style="friendly", nowrap=True)


def pages() -> dict[Path, str]:
    """The texts of the site, by their place in the tree; the reference is made here."""
    files = [path for f in ("*.md", "docs/**/*.md", "benchmarks/**/*.md") for path in ROOT.glob(f)]
    texts = {path.relative_to(ROOT): path.read_text() for path in sorted(files)}
    return texts | {REFERENCE: reference()}


def place(page: Path) -> Path:
    """Where a page lies in the site."""
    return page.with_name("index.html" if page.name == "README.md" else f"{page.stem}.html")


def menu(contents: str) -> str:
    """The headings and the links of the list of pages, without what it says about them."""
    found = re.findall(r"^(?:## .+|- \[[^\]]+\]\([^)\s]+\))", contents, re.MULTILINE)
    return "\n".join(
        ["- [StreamScope](../README.md)", *found, f"- [API reference]({REFERENCE.name})"]
    )


def coloured(code: str, language: str, _: str) -> str:
    """A block of code as HTML; a block without a language that Pygments knows stays plain."""
    try:
        return highlight(code, get_lexer_by_name(language), CODE)
    except ClassNotFound:
        return ""


def add_anchors(tokens: list[Token]) -> None:
    """Give every heading the anchor that GitHub gives it."""
    seen: dict[str, int] = {}
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            anchor = re.sub(r"[^\w\- ]", "", inline.content.lower()).replace(" ", "-")
            seen[anchor] = seen.get(anchor, -1) + 1
            opening.attrs["id"] = f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor


class Site:
    """A folder of pages that share a menu and a style."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages = pages()
        self.page = Template((HERE / "page.html").read_text())
        self.markdown = MarkdownIt("commonmark", {"highlight": coloured}).enable("table")
        self.files: set[Path] = set()

    def build(self) -> None:
        """Write all pages, the files they link to, and the style."""
        for page in self.pages:
            self.write(page)
        for file in sorted(self.files):
            path = self.folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, path)
        style = CODE.get_style_defs("pre code") + "\n" + (HERE / "style.css").read_text()
        (self.folder / "style.css").write_text(style)

    def write(self, page: Path) -> None:
        """Write one page."""
        text = self.pages[page]
        path = self.folder / place(page)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = self.page.substitute(
            title=text.partition("\n")[0].lstrip("# ").replace("`", ""),
            top="../" * (len(page.parts) - 1),
            menu=self.html(menu(self.pages[CONTENTS]), CONTENTS, page),
            text=self.html(text, page, page),
        )
        path.write_text(content)

    def html(self, text: str, at: Path, page: Path) -> str:
        """The HTML, for ``page``, of Markdown whose links are relative to ``at``."""
        tokens = self.markdown.parse(text)
        add_anchors(tokens)
        for token in tokens:
            for part in token.children or ():
                for name in ("href", "src"):
                    if name in part.attrs:
                        part.attrs[name] = self.link(str(part.attrs[name]), at, page)
        rendered: str = self.markdown.renderer.render(tokens, self.markdown.options, {})
        return rendered

    def link(self, link: str, at: Path, page: Path) -> str:
        """A link of a text at ``at`` as a link of ``page`` in the site."""
        name, mark, anchor = link.partition("#")
        if not name or re.match(r"\w+:", name):
            return link
        target = Path(os.path.normpath(at.parent / name))
        if (ROOT / target).is_dir():
            target /= "README.md"
        if target in self.pages:
            target = place(target)
        else:
            self.files.add(target)
        return os.path.relpath(target, page.parent) + mark + anchor


if __name__ == "__main__":
    Site(Path(sys.argv[1])).build()
    print(f"{sys.argv[1]}/index.html")
