"""Expressions: typed trees over columns, and their evaluation."""

from importlib import import_module

# A host unpickles expressions, which name their functions, and imports nothing else of the planner:
# the registry of ``nodes`` is filled whichever module here comes first.
import_module("planner.expressions.functions")
