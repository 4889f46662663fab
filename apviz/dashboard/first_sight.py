"""What a page shows before its scripts have come: its answer as plain HTML, which the page itself then replaces.

Bokeh, Material's components and plotly take a browser seconds to read; the verdict, the curves and the table of runs
are known to the server before, and are sent with the page.
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
#: plotly's symbols of runs, as letters
_SYMBOLS: Final = {
    "circle": "●", "square": "■", "triangle-up": "▲", "triangle-left": "◀", "triangle-right": "▶", "pentagon": "⬟",
    "hexagram": "✶", "star": "★",
}  # fmt: skip


@dataclass(frozen=True)
class FirstSight:
    """Part of a page as HTML.

    Attributes:
        body: below the tabs.
        awaits: what replaces it, by being drawn.
    """

    body: str
    awaits: Literal["chart", "table"]


def page(sight: FirstSight | None, titles: Iterable[str], title: str, theme: ThemeName, *, lecture: bool) -> str:
    """HTML of the whole page at first sight; empty where there is nothing to show yet.

    Args:
        titles: of all tabs.
        title: of the tab that is shown.
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
    """Table of runs as `SortedTable` shows it.

    Args:
        columns: heading and form of each.
        rows: of each the key, then its cells.
        selected: key of the row that is looked at.
        swatches: colour, dash and symbol of the curve of a run, by its key.
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
    """A cell as the table of the page writes it."""
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
