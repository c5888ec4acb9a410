"""Text from documents, questions and models is data: it never becomes markup.

``html_text`` is for ``st.html``; ``plain`` for labels and messages that Streamlit reads as markdown.
"""

from __future__ import annotations

import html
import string

_MARKDOWN = str.maketrans({mark: f"\\{mark}" for mark in string.punctuation})


def html_text(text: str) -> str:
    """``text`` as HTML content or attribute value."""
    return html.escape(text, quote=True)


def plain(text: str) -> str:
    """``text`` as markdown that shows it letter by letter, on one line.

    Every ASCII punctuation mark is escaped: emphasis, links, ``$`` formulas, ``:directives:`` and HTML alike.
    """
    return " ".join(text.split()).translate(_MARKDOWN)


def shortened(text: str, length: int) -> str:
    """``text`` on one line, cut to ``length`` characters with an ellipsis."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"
