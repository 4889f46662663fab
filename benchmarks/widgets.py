"""Widgets that live in the browser, on a page from a disk: how soon one answers, how long a frame takes, its weight.

- *frame*: from when the page hears of a moved pointer or a pressed key until the frame that shows it is painted by the
  page's thread: script, styles, layout, paint. Moves are handed out when a frame begins; a key comes at any time, and
  with it this holds what is left till the next frame, which a page can only fill;
- *begun*: how long after the page heard of it that frame began: what a page that draws when a frame begins adds to its
  work, and what one that draws at once computes in;
- *answer*: the same as *frame* from when the browser made the event;
- *CPU*: seconds that the page's thread computed, ÷ frames: what a frame takes where nothing else runs on the machine,
  whose other work lengthens the two above and hardly this;
- *first paint*: from opening the page until the widget's first chart is drawn, median of fresh browsers' contexts;
- *first interaction*: the same until a moved slider is shown;
- *settled*: from a key pressed until nothing is left to compute, where an answer may be computed over several frames;
- *play*: of steps that play, milliseconds between frames and steps a second, from step 0; of a photograph on both
  sides;
- *bytes*: of the page and its scripts and styles, without plotly.js, which such a page does not ask for.

Each widget is dragged by its handles and its first slider is moved by keys, at its default size and at its largest.
Needs Chromium and Playwright.

    python -m benchmarks.widgets [--moves 150] [--loads 5] [--only Kappas Photograph] [--pages notebooks/html]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any, Literal

import nbformat
import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from apviz.widgets import (
    Angles,
    CGAgainstProjection,
    EarlyStopping,
    Forecast,
    Kappas,
    Photograph,
    PositiveDefinite,
    Projection,
    ProjectionPlayer,
    SamplePaths,
    WhichBlock,
    Zigzag,
)
from apviz.widgets.live_widget import STATIC, LiveWidget
from benchmarks.dashboard.serving import CHROMIUM, FLAGS
from benchmarks.machine import RESULTS, keep
from notebooks.build.pages import write_pages

SIZE = {"width": 1280, "height": 1400}
#: milliseconds between presses of a key that is held
REPEAT = 33
#: widget, what is dragged, and the values that make the most of it
CASES: list[tuple[type[LiveWidget], list[str], dict[str, Any]]] = [
    (Angles, ["the second block", "the Friedrichs angle"], {"points": 12, "shared": 4}),
    (Projection, ["point 3", "the tip of g", "the step"], {"blocks": "{1} {2} {3}", "step": 20}),
    (
        ProjectionPlayer,
        ["point 6", "the step", "the corner of the first block"],
        {"points": 40, "block_size": 10, "overlap": 0.5, "step": 20},
    ),
    (WhichBlock, ["the step", "the edge of the first block", "your bet"], {"reveal": True, "block_size": 1}),
    (Kappas, ["the block size"], {"block_size": 100, "bet": "shown"}),
    (CGAgainstProjection, ["the work"], {"points": 80, "block_size": 20, "bet": "shown"}),
    (Photograph, ["the step"], {"pixels": 13696, "block_size": 200, "overlap": 0.5}),
    (Zigzag, ["the second line", "the first residual", "the angle"], {"angle": 3, "share": 0.001}),
    (PositiveDefinite, ["the number of points", "the jitter"], {"points": 100, "kernel": "matern12"}),
    (SamplePaths, ["the number of points"], {"doublings": 6}),
    (Forecast, ["the end of the data", "the lengthscale"], {"end": 2.0}),
    (EarlyStopping, ["the step"], {"step": 10_000}),
]
#: name of the steps of widgets that play
PLAYERS: dict[type[LiveWidget], str] = {
    Photograph: "step", Projection: "step", ProjectionPlayer: "step", SamplePaths: "doublings", Zigzag: "leg",
}  # fmt: skip
#: what a widget is measured with at its default size, beyond its defaults: results are computed after a bet
DEFAULTS: dict[type[LiveWidget], dict[str, Any]] = {
    Kappas: {"bet": "shown"},
    CGAgainstProjection: {"bet": "shown"},
    WhichBlock: {"reveal": True},
}
#: seconds that steps play
PLAYED = 6
#: keeps when frames came while steps play, and which step stood there
PLAY = """() => {
    window.played_ = [];
    const step = document.querySelector(".player").parentElement.querySelector("output");
    const keep = (now) => {
        window.played_.push([now, Number(step.textContent)]);
        requestAnimationFrame(keep);
    };
    requestAnimationFrame(keep);
}"""
#: keeps, for every event, how long the page's thread and the browser had it, in milliseconds
RECORD = """() => {
    window.frames_ = {frame: [], answer: [], begun: []};
    let heard = null;
    const painted = new MessageChannel();
    painted.port1.onmessage = ({data: [from, made, begun]}) => {
        const now = performance.now();
        window.frames_.frame.push(now - from);
        window.frames_.answer.push(now - made);
        window.frames_.begun.push(begun - from);
    };
    const hear = (event) => {
        if (heard) return;
        heard = [performance.now(), event.timeStamp];
        requestAnimationFrame(() => {
            // after this frame's callbacks, styles, layout and paint
            painted.port2.postMessage([...heard, performance.now()]);
            heard = null;
        });
    };
    for (const name of ["pointermove", "keydown"]) window.addEventListener(name, hear, {capture: true});
}"""
#: when the first chart is drawn, and a moved slider is shown, counted from the page's opening
FIRST = """() => {
    const wait = () => {
        const input = document.querySelector(".apviz-live input[type=range]");
        const shown = document.querySelector(".apviz-live svg path");
        if (!input || !shown) return requestAnimationFrame(wait);
        requestAnimationFrame(() => (window.drawn_ = performance.now()));
        const readout = input.parentElement.querySelector("output"), before = readout.textContent;
        input.value = Number(input.value) + 1;
        input.dispatchEvent(new Event("input", {bubbles: true}));
        const see = () => {
            if (readout.textContent === before) return requestAnimationFrame(see);
            requestAnimationFrame(() => (window.answered_ = performance.now()));
        };
        requestAnimationFrame(see);
    };
    requestAnimationFrame(wait);
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--moves", type=int, default=150, help="of a pointer, and presses of a key (default: 150)")
    parser.add_argument("--loads", type=int, default=5, help="of each page (default: 5)")
    parser.add_argument("--only", nargs="+", default=[], help="names of widgets; the others keep what was measured")
    parser.add_argument("--pages", type=Path, help="of `make notebooks`: those with live widgets are opened too")
    asked = parser.parse_args()
    results: dict[str, Any] = {"widgets": {}, "pages": {}}
    if asked.only:
        results = json.loads((RESULTS / "widgets.json").read_text())["results"]
    with sync_playwright() as session, tempfile.TemporaryDirectory() as place:
        browser = session.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for kind, handles, largest in CASES:
            if asked.only and kind.__name__ not in asked.only:
                continue
            found: dict[str, Any] = {}
            for size, values in (("default", DEFAULTS.get(kind, {})), ("largest", largest)):
                path = page_of(kind(**values), Path(place) / kind.__name__ / size)
                found[size] = {handle: dragged(browser, path, handle, asked.moves) for handle in handles}
                found[size]["a slider by keys"] = pressed(browser, path, asked.moves)
                if kind in (Kappas, Photograph):
                    found[size]["settled"] = settled(browser, path)
                if kind in PLAYERS:
                    first = kind(**values | {PLAYERS[kind]: 0})
                    found[size]["play"] = played(browser, page_of(first, path.parent))
            path = page_of(kind(), Path(place) / kind.__name__ / "page")
            found |= first_seconds(browser, path, asked.loads)
            found["bytes"] = sum(
                (path.parent / name).stat().st_size for name in (path.name, "page.css", "widgets.css", "widgets.js")
            )
            results["widgets"][kind.__name__] = found
        for path in sorted(asked.pages.glob("*.html")) if asked.pages else []:
            if "apviz-place" in path.read_text("utf-8"):
                results["pages"][path.stem] = first_seconds(browser, path, asked.loads)
        browser.close()
    if asked.only:
        print(json.dumps(results, indent=1))
    else:
        keep("widgets", results)


def page_of(widget: LiveWidget, folder: Path) -> Path:
    """The page of a notebook with this widget alone."""
    cells = [nbformat.v4.new_markdown_cell(f"# {widget.title}"), nbformat.v4.new_code_cell("widget", execution_count=1)]
    cells[1].outputs = [nbformat.v4.new_output("display_data", widget.static_output(), metadata={STATIC: "1"})]
    write_pages([("widget", nbformat.v4.new_notebook(cells=cells))], folder)
    return folder / "widget.html"


def opened(browser: Browser, path: Path, *, is_played: bool = False) -> tuple[Page, Thread]:
    """Open a page; without motion unless steps are played, so that nothing else moves."""
    motion: Literal["reduce", "no-preference"] = "no-preference" if is_played else "reduce"
    tab = browser.new_context(viewport=SIZE, reduced_motion=motion).new_page()
    tab.goto(path.as_uri())
    tab.locator(".apviz-live svg .curve").first.wait_for(state="attached")
    tab.wait_for_timeout(500)
    tab.wait_for_function("!document.querySelector('[data-busy]')", timeout=120_000)
    tab.evaluate(RECORD)
    return tab, Thread(tab)


class Thread:
    """The thread of a page: scripts, styles, layout and paint."""

    def __init__(self, tab: Page) -> None:
        self._tab, self._wire = tab, tab.context.new_cdp_session(tab)
        self._wire.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._start = self._seconds()

    def computed(self) -> float:
        """Seconds."""
        return self._seconds() - self._start

    def figures(self) -> dict[str, float]:
        """Median and 95% of what was recorded, and the mean of what was computed, in milliseconds."""
        computed = self.computed()
        self._tab.wait_for_timeout(200)
        taken = self._tab.evaluate("() => window.frames_")
        self._tab.context.close()
        count = len(taken["frame"])
        return {
            f"{name}, {what} (ms)": round(float(np.percentile(taken[name], share)), 1)
            for name in ("frame", "answer", "begun")
            for what, share in (("median", 50), ("95%", 95))
        } | {"CPU, mean (ms)": round(1000 * computed / count, 1), "frames": count}

    def _seconds(self) -> float:
        metrics = self._wire.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


def dragged(browser: Browser, path: Path, handle: str, moves: int) -> dict[str, float]:
    """Drags a handle to and fro."""
    tab, thread = opened(browser, path)
    grip = tab.get_by_role("slider", name=handle, exact=True)
    grip.scroll_into_view_if_needed()
    box = grip.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    for k in range(moves):
        turn = 2 * np.pi * k / 50
        tab.mouse.move(x + 40 * np.sin(turn), y - 25 * (1 - np.cos(turn)))
    tab.mouse.up()
    return thread.figures()


def pressed(browser: Browser, path: Path, moves: int) -> dict[str, float]:
    """Moves the first slider by arrow keys, ten places to and fro, as fast as a key that is held."""
    tab, thread = opened(browser, path)
    tab.locator(".apviz-live input[type=range]").first.focus()
    for k in range(moves):
        tab.keyboard.press("ArrowRight" if k // 10 % 2 == 0 else "ArrowLeft")
        tab.wait_for_timeout(REPEAT)
    return thread.figures()


def settled(browser: Browser, path: Path, moves: int = 12) -> dict[str, float]:
    """Milliseconds from a key, which moves the second slider, until all is computed and drawn."""
    tab, thread = opened(browser, path)
    tab.wait_for_function("!document.querySelector('[data-busy]')", timeout=120_000)
    tab.locator(".apviz-live input[type=range]").nth(1).focus()
    taken = []
    for k in range(moves):
        tab.evaluate(
            "() => addEventListener('keydown', () => (window.from_ = performance.now()), {once: true, capture: true})"
        )
        tab.keyboard.press("ArrowRight" if k % 4 < 2 else "ArrowLeft")
        taken.append(
            tab.evaluate("""() => new Promise((done) => {
                const look = () => document.querySelector("[data-busy]")
                    ? requestAnimationFrame(look) : done(performance.now() - window.from_);
                requestAnimationFrame(() => requestAnimationFrame(look));
            })""")
        )
    computed = thread.computed()
    tab.context.close()
    return {"median (ms)": round(statistics.median(taken), 1), "CPU, mean (ms)": round(1000 * computed / moves, 1)}


def played(browser: Browser, path: Path) -> dict[str, float]:
    """Frames and steps while they play from the first."""
    tab, thread = opened(browser, path, is_played=True)
    tab.get_by_role("button", name="play").click()
    tab.evaluate(PLAY)
    tab.wait_for_timeout(1000 * PLAYED)
    times, updates = np.array(tab.evaluate("window.played_")).T
    computed = thread.computed()
    tab.context.close()
    last = int(np.argmax(updates == updates[-1])) + 1  # where it ended, or the time did
    gaps, seconds = np.diff(times[:last]), (times[last - 1] - times[0]) / 1000
    return {
        "between frames, median (ms)": round(float(np.median(gaps)), 1),
        "between frames, 95% (ms)": round(float(np.percentile(gaps, 95)), 1),
        "steps a second": round(float((updates[last - 1] - updates[0]) / seconds), 1),
        "CPU a step, mean (ms)": round(1000 * computed / max(1, updates[-1] - updates[0]), 1),
        "frames": last,
    }


def first_seconds(browser: Browser, path: Path, loads: int) -> dict[str, float]:
    """Seconds until a page has drawn and has answered, medians of several openings; a low widget is scrolled to."""
    seconds = []
    for _ in range(loads):
        context = browser.new_context(viewport=SIZE)
        context.add_init_script(f"({FIRST})()")
        context.add_init_script(
            "addEventListener('DOMContentLoaded', () => document.querySelector('.apviz-place').scrollIntoView())"
        )
        tab = context.new_page()
        tab.goto(path.resolve().as_uri(), wait_until="commit")
        tab.wait_for_function("window.answered_")
        seconds.append(tab.evaluate("[window.drawn_, window.answered_]"))
        context.close()
    drawn, answered = (round(statistics.median(each) / 1000, 3) for each in zip(*seconds, strict=True))
    return {"first paint (s)": drawn, "first interaction (s)": answered}


if __name__ == "__main__":
    main()
