"""Finds the nodes of a parsed text, and gives new trees their place in the text for messages."""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

N = TypeVar("N", bound=exp.Expr)


def nodes_of(root: exp.Expr, *kinds: type[N]) -> list[N]:
    """Return the nodes of these kinds in a tree, breadth first.

    A loop instead of sqlglot's generators, because each statement is searched some thirty times.
    """
    nodes = [root]
    for node in nodes:  # the list grows while it is read
        for value in node.args.values():
            if isinstance(value, exp.Expr):
                nodes.append(value)
            elif isinstance(value, list):
                nodes += [part for part in value if isinstance(part, exp.Expr)]
    return [node for node in nodes if isinstance(node, kinds)]


def place(made: exp.Expr, at: exp.Expr) -> None:
    """Give a new tree the place in the text of an existing node, for messages."""
    found = next((node.meta for node in at.walk() if "start" in node.meta), None)
    if found is None:
        return
    for part in made.walk():
        for key in ("start", "end"):
            part.meta.setdefault(key, found[key])


def replaced(node: exp.Expr, made: exp.Expr) -> None:
    """Replace a node of the text by a new tree at its place."""
    place(made, node)
    node.replace(made)


def declared_file(table: exp.Table, options: dict[str, str]) -> exp.Create:
    """Return a declaration of a file in FROM, as rows without times; its name is its path."""
    properties = [
        exp.Property(this=exp.var(name), value=exp.Literal.string(value))
        for name, value in options.items()
    ]
    made = exp.Create(
        this=exp.Table(this=exp.to_identifier(options["path"], quoted=True)),
        kind="TABLE",
        properties=exp.Properties(expressions=properties),
        exists=True,
    )
    place(made, table)
    return made
