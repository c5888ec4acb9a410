"""What all charts share."""

from __future__ import annotations

from typing import Any

import altair as alt

# Altair looks for pandas among the loaded modules while another session's thread may still be importing it, and then
# meets half a module. Imported here, before any chart, it is whole.
import pandas  # noqa: F401


def chart_of(rows: list[dict[str, Any]]) -> alt.Chart:
    """A chart on plain rows."""
    return alt.Chart(alt.InlineData(values=rows))
