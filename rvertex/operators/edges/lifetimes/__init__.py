"""Operators over rows whose ends come later that change when rows live."""
