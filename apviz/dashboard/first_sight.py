"""Static preview of a page in plain HTML, shown until the scripts have loaded and the page itself replaces it.

A browser needs seconds to load Bokeh, Material's components and plotly. The server already knows the verdict, the
curves and the table of runs, and sends them with the page.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from apviz.plots._style import ThemeName

STYLE: Final = Path(__file__).with_name("first_sight.css").read_text("utf-8")
_MISSING: Final = "–"
#: Characters that stand for plotly's marker symbols of runs.
_SYMBOLS: Final = {
    "circle": "●", "square": "■", "triangle-up": "▲", "triangle-left": "◀", "triangle-right": "▶", "pentagon": "⬟",
    "hexagram": "✶", "star": "★",
}  # fmt: skip


@dataclass(frozen=True)
class FirstSight:
    """Static preview of a page as HTML.

    Attributes:
        body: HTML below the tabs.
        awaits: Component that replaces the preview once it is drawn.
    """

    body: str
    awaits: Literal["chart", "table"]


def page(sight: FirstSight | None, titles: Iterable[str], title: str, theme: ThemeName, *, lecture: bool) -> str:
    """Return the HTML of the whole preview; empty if there is nothing to show yet.

    Args:
        titles: Titles of all tabs.
        title: Title of the open tab.
    """
    if sight is None:
        return ""
    tabs = "".join(f"<span{' class=now' if each == title else ''}>{html.escape(each)}</span>" for each in titles)
    kind = f"{theme} lecture" if lecture else theme
    return (
        f'<div id="apviz-first" class="{kind}" data-awaits="{sight.awaits}" aria-busy="true"><header><b>apviz</b>'
        '<i role="status">the controls are coming</i></header><aside></aside>'
        f"<nav>{tabs}</nav><main>{sight.body}</main></div>"
    )


def table(
    columns: Sequence[Sequence[str]], rows: Sequence[Sequence[Any]], selected: str, swatches: Mapping[str, Any]
) -> str:
    """Return the table of runs as HTML, as `SortedTable` shows it.

    Args:
        columns: Heading and format of each column.
        rows: Key of each row, followed by its cells.
        selected: Key of the selected row.
        swatches: Colour, dash and symbol of a run's curve, by the key of the run.
    """
    head = "".join(f'<th class="{_side(form)}">{html.escape(title)}</th>' for title, form in columns)
    body = "".join(
        f"<tr{' class=now' if key == selected else ''}>{_row(columns, cells, swatches.get(key))}</tr>"
        for key, *cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _side(form: str) -> str:
    return "text" if form == "text" else "number"


def _row(columns: Sequence[Sequence[str]], cells: Sequence[Any], swatch: Any) -> str:
    words = [html.escape(_written(cell, form)) for cell, (_, form) in zip(cells, columns, strict=True)]
    words[0] = _swatch(swatch) + words[0]
    return "".join(f'<td class="{_side(form)}">{word}</td>' for word, (_, form) in zip(words, columns, strict=True))


def _written(cell: Any, form: str) -> str:
    """Return the text of a cell, formatted as in the table of the page."""
    if cell is None:
        return _MISSING
    value, sign = cell if isinstance(cell, list) else (cell, "")
    if form == "text":
        return f"{sign}{value}"
    if form == "scientific":
        return sign + re.sub(r"e([+-])0*(\d)", r"e\1\2", f"{value:.2e}")
    return f"{sign}{value:,.{ {'integer': 0, '2 decimals': 2, '4 decimals': 4}[form] }f}"


def _swatch(style: Any) -> str:
    if not style:
        return ""
    color, dash, symbol = (html.escape(str(each)) for each in style)
    dashes = "none" if dash == "solid" else dash.replace("px", "")
    return (
        f'<svg width="40" height="14" aria-hidden="true"><path d="M0 7H40" stroke="{color}" stroke-width="2.5" '
        f'stroke-dasharray="{dashes}"/><text x="20" y="11.5" fill="{color}" text-anchor="middle" font-size="13">'
        f"{_SYMBOLS.get(symbol, '')}</text></svg>"
    )
