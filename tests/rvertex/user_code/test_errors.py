"""How messages show a user's values."""

from __future__ import annotations

from rvertex.user_code.errors import shown


def test_a_value_is_shown_with_at_most_two_hundred_characters() -> None:
    assert shown("a" * 198) == repr("a" * 198)
    for length in (199, 10_000):
        assert shown("a" * length) == "'" + "a" * 196 + "..."
        assert len(shown("a" * length)) == 200
