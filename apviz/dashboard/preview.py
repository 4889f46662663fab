"""What a page shows until its scripts have loaded: header, chips, verdict, and the first chart.

A browser needs seconds to load Bokeh and Material's components. The server already knows the verdict and the figure,
and sends them with the page; plotly draws the figure as soon as it has loaded.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STYLE: Final = Path(__file__).with_name("preview.css").read_text("utf-8")


@dataclass(frozen=True)
class Preview:
    """Contents of the preview of a page.

    Attributes:
        headline, rest: Verdict, and the text after it.
        figure: First chart, as plotly's JSON.
    """

    headline: str
    rest: str
    figure: str


def page(preview: Preview | None, chips: Iterable[Sequence[str]], titles: Iterable[str], title: str) -> str:
    """Return the HTML of the preview; without contents, grey shapes where these will be.

    Args:
        chips: Label and value of each chip.
        titles: Titles of all tabs.
        title: Title of the open tab.
    """
    tabs = "".join(f"<span{' class=now' if each == title else ''}>{html.escape(each)}</span>" for each in titles)
    bar = "".join(f"<span><i>{html.escape(label)}</i> <b>{html.escape(value)}</b></span>" for label, value in chips)
    if preview is None:
        awaits, body = "", "<div class=grey></div><div class='grey chart'></div>"
    else:
        # `<` could end the script
        figure = preview.figure.replace("<", "\\u003c")
        words = f"<h2>{html.escape(preview.headline)}</h2><p>{html.escape(preview.rest)}</p>"
        script = f"<script type='application/json' id='apviz-figure'>{figure}</script>"
        awaits, body = "chart", f"{words}<div class='grey chart' id='apviz-chart'></div>{script}"
    return (
        f'<div id="apviz-first" data-awaits="{awaits}" aria-busy="true" tabindex="0">'
        f'<header><b>apviz</b><nav>{tabs}</nav><i role="status">Controls are loading …</i></header>'
        f'<main><div class="chips">{bar}</div><section>{body}</section></main></div>'
    )
