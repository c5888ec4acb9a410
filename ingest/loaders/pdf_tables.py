"""Ruled tables of a PDF page: lines that cross form a grid, and each character belongs to the cell it stands in.

Only drawn rules count. Columns guessed from gaps would turn slides and forms into tables (FIELD: dozens of
false ones), so a table without rules stays text.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pypdfium2 as pdfium
import pypdfium2.raw as raw

_THIN = 2.5
_TOLERANCE = 2.0
_MIN_LINES = 3
_MAX_RULES = 1500
_MIN_FILLED = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A drawn line in PDF points (y grows upwards); one of its sides is thin."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def is_horizontal(self) -> bool:
        """Wider than high."""
        return self.right - self.left > self.top - self.bottom

    def touches(self, other: "Rule") -> bool:
        """Whether the two lines meet, within the tolerance."""
        return (
            self.left <= other.right + _TOLERANCE
            and other.left <= self.right + _TOLERANCE
            and self.bottom <= other.top + _TOLERANCE
            and other.bottom <= self.top + _TOLERANCE
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Borders of the columns (left to right) and of the rows (bottom to top)."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]

    def cell(self, x: float, y: float) -> tuple[int, int] | None:
        """(row from the top, column) of a point, None outside."""
        if not (self.xs[0] <= x <= self.xs[-1] and self.ys[0] <= y <= self.ys[-1]):
            return None
        column = min(bisect_right(self.xs, x), len(self.xs) - 1) - 1
        from_bottom = min(bisect_right(self.ys, y), len(self.ys) - 1) - 1
        return len(self.ys) - 2 - from_bottom, column

    def table(self, cells: dict[tuple[int, int], str]) -> tuple[tuple[str, ...], ...]:
        """Rows of cell texts."""
        rows, columns = range(len(self.ys) - 1), range(len(self.xs) - 1)
        return tuple(tuple(cells.get((row, column), "") for column in columns) for row in rows)


def find_grids(page: pdfium.PdfPage) -> list[Grid]:
    """Grids of at least two rows and two columns, none for a page that is a drawing."""
    rules = list(_rules(page))
    if len(rules) > _MAX_RULES:
        return []
    grids = [_grid(group) for group in _connected(rules)]
    return [grid for grid in grids if min(len(grid.xs), len(grid.ys)) >= _MIN_LINES]


def is_table(rows: Sequence[Sequence[str]]) -> bool:
    """Whether enough cells of a grid hold text: a frame around figures is no table."""
    cells = [cell for row in rows for cell in row]
    return sum(map(bool, cells)) >= max(3.0, _MIN_FILLED * len(cells))


def _rules(page: pdfium.PdfPage) -> Iterator[Rule]:
    """Thin paths as they are; the outline of a box as its four sides."""
    for item in page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH], max_depth=3):
        left, bottom, right, top = item.get_bounds()
        if right - left <= _THIN or top - bottom <= _THIN:
            yield Rule(left=left, bottom=bottom, right=right, top=top)
        else:
            yield Rule(left=left, bottom=bottom, right=right, top=bottom)
            yield Rule(left=left, bottom=top, right=right, top=top)
            yield Rule(left=left, bottom=bottom, right=left, top=top)
            yield Rule(left=right, bottom=bottom, right=right, top=top)


def _connected(rules: Sequence[Rule]) -> list[list[Rule]]:
    """Groups of lines that touch directly or through others."""
    groups: list[list[Rule]] = []
    for rule in rules:
        near = [group for group in groups if any(rule.touches(other) for other in group)]
        groups = [group for group in groups if not any(group is other for other in near)]
        groups.append([rule, *(other for group in near for other in group)])
    return groups


def _grid(rules: Sequence[Rule]) -> Grid:
    return Grid(
        xs=_borders([(rule.left + rule.right) / 2 for rule in rules if not rule.is_horizontal]),
        ys=_borders([(rule.bottom + rule.top) / 2 for rule in rules if rule.is_horizontal]),
    )


def _borders(positions: Sequence[float]) -> tuple[float, ...]:
    """Distinct positions, those closer than the tolerance taken as one."""
    borders: list[float] = []
    for position in sorted(positions):
        if not borders or position - borders[-1] > _TOLERANCE:
            borders.append(position)
    return tuple(borders)
