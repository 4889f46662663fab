"""A table of runs: sorted by its headings, in pages, a click looks at a run, and runs can be ticked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import param
from panel.custom import JSComponent

#: how the cells of a column are written
Form = Literal["text", "integer", "2 decimals", "4 decimals", "scientific"]
#: a number may come with the sign that is written before it, such as ≈
Cell = str | float | tuple[float, str] | None


class Table(JSComponent):
    """An HTML table, drawn from what it holds.

    Panel's Tabulator is built over some time, and loses rows that come to it meanwhile.

    Args:
        columns: how the cells are written, by the heading; the first column names the run.
    """

    caption = param.String("Runs", doc="what the rows are, for those who do not see it")
    columns = param.List([], item_type=list, doc="heading and form of each")
    rows = param.List(
        [], item_type=list, doc="of each the key, then its cells; None is missing, a number and its sign a list"
    )
    selected = param.String("", doc="key of the row that is looked at, or empty")
    can_tick = param.Boolean(False, doc="whether rows have boxes to tick")
    ticked = param.List([], item_type=str, doc="keys of the ticked rows, in the order of the rows")
    page_rows = param.Integer(0, bounds=(0, None), doc="rows of a page; 0 for one page")
    page = param.Integer(0, bounds=(0, None), doc="the page that is shown, from 0")
    sorted_by = param.String("", doc="heading of the column by which rows are sorted; empty for the order given")
    descending = param.Boolean(False, doc="whether the largest comes first; what is missing comes last anyway")

    _esm = Path(__file__).with_name("table.js")
    _stylesheets: ClassVar[list[str]] = [Path(__file__).with_name("table.css").read_text("utf-8")]

    def __init__(self, columns: Mapping[str, Form], **params: Any) -> None:
        super().__init__(columns=[[title, form] for title, form in columns.items()], **params)

    def show(self, rows: Mapping[str, Sequence[Cell]], **state: Any) -> None:
        """Other rows, by their keys, and with them what else is different; order, page and focus stay.

        Args:
            state: of the parameters, such as `selected`.
        """
        self.param.update(rows=[[key, *map(_known, cells)] for key, cells in rows.items()], **state)

    def on_click(self, call: Callable[[str], None]) -> None:
        """Calls with the key of a row that is clicked, also of one that is looked at already."""
        self.on_msg(lambda event: call(event.data))


def _known(cell: Cell) -> str | float | list[float | str] | None:
    """JSON has no NaN, and no tuples."""
    number = cell[0] if isinstance(cell, tuple) else cell
    if isinstance(number, float) and math.isnan(number):
        return None
    return list(cell) if isinstance(cell, tuple) else cell
