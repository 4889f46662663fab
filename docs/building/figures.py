"""Figures of the gallery: a still of each, in light and dark, and the figure itself, which comes when it is touched.

plotly.js is larger than any page, which asks for it only then. Stills need a browser; where there is
none, figures come by themselves.
"""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from apviz import plots

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
#: pixels of a still, and of the place of a figure
WIDTH, HEIGHT, DENSITY = 720, 450, 1.5
#: pixels of a thumbnail
THUMBNAIL = (360, 240)
#: most rows of panels with labels on a thumbnail
ROWS = 2


def draw(block: tuple[str, str, int], variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """The figure that a script leaves in `figure`, as reStructuredText; sphinx-gallery calls this after each block."""
    figure = variables["example_globals"].get("figure")
    if block[0] != "code" or not isinstance(figure, go.Figure):
        return ""
    if CHROMIUM:  # the gallery takes the first image for its thumbnail
        _write_still(_small(figure), next(variables["image_path_iterator"]), *THUMBNAIL)
    both = {"light": figure, "dark": _in_dark(block[1], variables["example_globals"])}
    shown = "".join(
        f'<script type="application/json" class="figure-{theme}">{_json(each)}</script>' for theme, each in both.items()
    )
    height = figure.layout.height or HEIGHT
    lines = [".. container:: plot", ""]
    if CHROMIUM:
        for theme, each in both.items():
            path = next(variables["image_path_iterator"])
            _write_still(each, path, WIDTH, height)
            place = Path(path).relative_to(settings["src_dir"]).as_posix()
            alt = " ".join(figure.layout.title.text.partition("<br>")[0].split())
            lines += [f"   .. image:: /{place}", f"      :class: only-{theme}", f"      :width: {WIDTH}px",
                      f"      :alt: {alt}", ""]  # fmt: skip
    lines += ["   .. raw:: html", "", f'      <div class="live" style="min-height:{height}px">{shown}</div>', ""]
    return "\n".join(lines)


#: scripts that a folder of the gallery begins with; the others follow by name
FIRST = (
    "residuals", "k_norm_error", "test_rmse", "block_timeline", "block_norms", "residual_image",
    "batch_size_sweep", "noise_sweep", "performance_profiles", "trajectory_step", "two_norms",
)  # fmt: skip


def in_reading_order(script: str) -> tuple[int, str]:
    """Return the sort key of a script among those of its folder."""
    name = Path(script).stem
    return (FIRST.index(name) if name in FIRST else len(FIRST)), name


def finish(app: Any, error: Exception | None) -> None:
    """Copy plotly.js next to the pages, and close the browser."""
    if _browser.cache_info().currsize:
        session, browser, _ = _browser()
        browser.close()
        session.stop()
        _browser.cache_clear()
    if not error and app.builder.name == "html":
        (Path(app.outdir) / "_static" / "plotly.min.js").write_text(get_plotlyjs(), "utf-8")


def _json(figure: go.Figure) -> str:
    return json.dumps(json.loads(figure.to_json()), separators=(",", ":")).replace("</", "<\\/")


def _in_dark(code: str, names: dict[str, Any]) -> go.Figure:
    """The figure as its last statement makes it where figures are dark by default."""
    tree = ast.parse(code)
    last = next(each for each in reversed(tree.body) if isinstance(each, ast.Assign))
    made = dict(names)
    with _dark():
        exec(compile(ast.Module([last], []), "<figure>", "exec"), made)
    found = made["figure"]
    assert isinstance(found, go.Figure)
    return found


@contextmanager
def _dark() -> Iterator[None]:
    rooms = (plots,)
    kept: list[tuple[Callable[..., Any], dict[str, Any]]] = []
    for each in (getattr(room, name) for room in rooms for name in room.__all__):
        function = each.__init__ if isinstance(each, type) else each
        if "theme" in (function.__kwdefaults__ or {}):
            kept.append((function, function.__kwdefaults__))
            function.__kwdefaults__ = {**function.__kwdefaults__, "theme": "dark"}
    try:
        yield
    finally:
        for function, before in kept:
            function.__kwdefaults__ = before


@cache
def _browser() -> tuple[Any, Any, Any]:
    from playwright.sync_api import sync_playwright

    session = sync_playwright().start()
    browser = session.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
    page = browser.new_page(viewport={"width": WIDTH, "height": 1200}, device_scale_factor=DENSITY)
    page.set_content('<body style="margin:0"><div id="figure"></div></body>')
    page.add_script_tag(content=get_plotlyjs())
    return session, browser, page


def _small(figure: go.Figure) -> go.Figure:
    """The figure without titles, buttons and sliders, which are too small on a thumbnail."""
    small = go.Figure(figure)
    small.layout.title, small.layout.updatemenus, small.layout.sliders = None, (), ()
    kept = [each for each in small.layout.annotations if each.xref != "paper" and each.yref != "paper"]
    small.layout.annotations, small.layout.height, small.layout.width = kept, None, None
    small.update_xaxes(title=None).update_yaxes(title=None)
    # panels one above the other are too low for the labels of each
    small.update_xaxes(showticklabels=False, selector=lambda axis: axis.matches is not None)
    if len({axis.domain for axis in small.select_yaxes()}) > ROWS:
        small.update_yaxes(showticklabels=False)
    return small.update_layout(showlegend=False, margin={"l": 8, "r": 8, "t": 8, "b": 8})


def _write_still(figure: go.Figure, path: str, width: float, height: float) -> None:
    _, _, page = _browser()
    page.evaluate(
        """async ([figure, width, height]) => {
          const place = document.querySelector("#figure");
          place.style.width = width + "px";
          place.style.height = height + "px";
          Plotly.purge(place);
          await Plotly.newPlot(place, { ...figure, config: { displayModeBar: false } });
        }""",
        [json.loads(figure.to_json()), width, height],
    )
    page.locator("#figure").screenshot(path=path)
