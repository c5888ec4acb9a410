"""Word lists of the rules, written as one reads them."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a text between white space."""
    return frozenset(text.split())
