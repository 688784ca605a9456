"""The grammar of ``MATCH_RECOGNIZE (...)`` after a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import TokenType

from planner.sql.reading.forms.queries.engines.places import nodes_of

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

_SKIPS = {
    ("PAST", "LAST", "ROW"): "past_last_row",
    ("TO", "NEXT", "ROW"): "to_next_row",
    ("TO", "FIRST"): "to_first",
    ("TO", "LAST"): "to_last",
}
_ROWS = {
    ("SHOW", "EMPTY", "MATCHES"): "all",
    ("OMIT", "EMPTY", "MATCHES"): "all_without_empty",
    ("WITH", "UNMATCHED", "ROWS"): "all_with_unmatched",
}


class MatchTable(exp.Expression):
    """``this MATCH_RECOGNIZE (...)``. ``pattern``, ``rows`` and ``after`` are texts."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "partition_by": False,
        "order": False,
        "measures": False,
        "rows": False,
        "after": False,
        "pattern": True,
        "within": False,
        "subset": False,
        "define": False,
        "alias": False,
    }


class Semantics(exp.Expression):
    """``RUNNING this`` or ``FINAL this``: the word is ``kind``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True}


class RowOf(exp.Expression):
    """``FIRST(this, expression)`` or ``LAST``; ``kind`` is the function."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": False, "kind": True}


class Subset(exp.Expression):
    """``this = (expressions)`` after SUBSET."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": True}


class Definition(exp.Expression):
    """``this AS expression`` after DEFINE."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class RowPatterns(Parser):
    """The part of the parser for row patterns."""

    #: Whether RUNNING and FINAL are keywords here.
    _is_in_match = False

    def _is_match(self) -> bool:
        word, after = self._curr, self._next
        is_word = word is not None and word.text.upper() == "MATCH_RECOGNIZE"
        return bool(is_word and after and after.token_type is TokenType.L_PAREN)

    def _parse_match_table(self, table: exp.Expr) -> exp.Expr:
        """Parse ``MATCH_RECOGNIZE (...)`` after a table."""
        start = self._curr
        self._advance(2)
        node = MatchTable(this=table)
        before, self._is_in_match = self._is_in_match, True
        node.set("partition_by", self._parse_partition_by())
        node.set("order", self._parse_order())
        if self._match_text_seq("MEASURES"):
            node.set("measures", self._parse_csv(self._parse_expression))
        node.set("rows", exp.var(self._parse_rows_of_match()))
        node.set("after", self._parse_skip())
        node.set("pattern", self._parse_pattern())
        if self._match_text_seq("WITHIN"):
            node.set("within", self._parse_interval())
        if self._match_text_seq("SUBSET"):
            node.set("subset", self._parse_csv(self._parse_subset))
        if self._match_text_seq("DEFINE"):
            node.set("define", self._parse_csv(self._parse_definition))
        self._is_in_match = before
        for call in nodes_of(node, exp.First, exp.Last):
            made = RowOf(kind=exp.var(type(call).__name__.upper()), **call.args)
            made.meta.update(call.meta)
            call.replace(made)
        self._name_match_times(node)
        self._match_r_paren()
        node.set("alias", self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS))
        node.update_positions(start)
        return node

    def _name_match_times(self, node: exp.Expr) -> None:
        """Replace ``MATCH_ROWTIME()`` by the time of the last row, if a match is one row."""
        order = node.args.get("order")
        time = None if order is None else order.expressions[0].this
        measures = node.args.get("measures") or ()
        calls = [call for part in measures for call in part.find_all(exp.Anonymous)]
        for call in calls if "one" in node.args["rows"].name.lower() else ():
            if call.name.upper() == "MATCH_ROWTIME" and isinstance(time, exp.Column):
                made = RowOf(kind=exp.var("LAST"), this=time.copy())
                made.meta.update(call.meta)
                call.replace(made)

    def _parse_rows_of_match(self) -> str:
        if self._match_text_seq("ALL", "ROWS", "PER", "MATCH"):
            for words, rows in _ROWS.items():
                if self._match_text_seq(*words):
                    return rows
            return "all"
        self._match_text_seq("ONE", "ROW", "PER", "MATCH")
        return "one"

    def _parse_skip(self) -> exp.Expr | None:
        if not self._match_text_seq("AFTER", "MATCH", "SKIP"):
            return None
        at = self._curr or self._prev
        for words, after in _SKIPS.items():
            if self._match_text_seq(*words):
                if after in ("to_first", "to_last"):
                    name = self._parse_id_var(any_token=True)
                    after = f"{after} {name.name}" if name is not None else after
                return self._placed(exp.var(after), at)
        if self._match_text_seq("TO"):
            name = self._parse_id_var(any_token=True)
            if name is not None:
                return self._placed(exp.var(f"to_last {name.name}"), at)
        self.raise_error("write PAST LAST ROW, TO NEXT ROW, TO FIRST a or TO LAST a")
        return None

    def _parse_pattern(self) -> exp.Expr:
        if not self._match_text_seq("PATTERN", "("):
            self.raise_error("MATCH_RECOGNIZE needs PATTERN (...)")
        first, depth = self._curr, 1
        last = first
        while self._curr:  # terminates: the text is finite
            depth += self._curr.token_type is TokenType.L_PAREN
            depth -= self._curr.token_type is TokenType.R_PAREN
            if depth == 0:
                break
            last = self._curr
            self._advance()
        empty = first is self._curr
        text = "()" if empty or first is None else self._find_sql(first, last)
        self._match_r_paren()
        return self._placed(exp.var(text), first)

    def _parse_subset(self) -> exp.Expr:
        name = self._parse_id_var(any_token=True)
        if not self._match(TokenType.EQ) or not self._match(TokenType.L_PAREN):
            self.raise_error("write SUBSET name = (a, b)")
        parts = self._parse_csv(lambda: self._parse_id_var(any_token=True))
        self._match_r_paren()
        return Subset(this=name, expressions=parts)

    def _parse_definition(self) -> exp.Expr:
        name = self._parse_id_var(any_token=True)
        if name is None or not self._match(TokenType.ALIAS):
            self.raise_error("write DEFINE variable AS condition")
        return Definition(this=name, expression=self._parse_disjunction())

    def _parse_unary(self) -> exp.Expr | None:
        word, after = self._curr, self._next
        kind = word.text.upper() if word is not None else ""
        is_word = self._is_in_match and kind in ("RUNNING", "FINAL") and after is not None
        if not is_word or not after or not after.text[:1].isalpha():
            return super()._parse_unary()
        self._advance()
        node = Semantics(this=super()._parse_unary(), kind=exp.var(kind))
        node.update_positions(word)
        return node

    def _placed(self, node: exp.Expr, at: Token | None) -> exp.Expr:
        if at is not None:
            node.update_positions(at)
        return node
