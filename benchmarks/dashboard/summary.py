"""The table of the dashboard's speed in `benchmarks/README.md`, from its results."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.machine import RESULTS

PATH = RESULTS / "dashboard.json"
README = RESULTS.parent / "README.md"
MARK = "<!-- of results/dashboard.json -->\n"
_HEAD = ["| | goal | reached | CPU, server | CPU, browser |", "|---|---|---|---|---|"]


class Goal(NamedTuple):
    """Goal of the benchmark.

    Attributes:
        part: Part of the results.
        figure: Name of the figure in its part.
        words: Text in the table.
        most: Goal.
        unit: Unit of the figure.
        cpu: Where the part has the CPU seconds until then: names of the server's and the browser's figures, after the
            name of a group of figures if they are in one.
        is_least: Whether a larger figure is better.
    """

    part: str
    figure: str
    words: str
    most: float
    unit: str = "s"
    cpu: tuple[str, ...] = ()
    is_least: bool = False


_SOON, _THEN = ("server CPU (s)", "browser CPU (s)"), ("its server CPU (s)", "its browser CPU (s)")
_NAMES = ("server CPU", "browser CPU")
GOALS = [
    Goal("start", "listens (s)", "listens, after the command", 2.0),
    Goal("new", "example painted (s)", "empty folder, first page of a server: the example is painted", 2.0, cpu=_SOON),
    Goal("new", "a control works (s)", "and a chip opens its editor", 3.0, cpu=_THEN),
    Goal("first", "first chart (s)", "folder of 12 runs, a new visitor: the first chart is painted", 2.0, cpu=_SOON),
    Goal("first", "a control works (s)", "and a chip opens its editor", 3.0, cpu=_THEN),
    Goal("switch", "page switch (s)", "another page, opened before: median of seven", 0.5),
    Goal("twelve", "12 runs onto Compare (s)", "12 runs onto the page Compare: their chart", 1.5, cpu=_NAMES),
    Goal("large", "a run of 100,000 updates (s)", "a run of 100,000 updates: its chart is painted", 2.0),
    Goal("many", "1,000 runs listed (s)", "1,000 runs listed", 5.0, cpu=("table that answers", *_NAMES)),
    Goal("many", "1,000 runs filtered (s)", "1,000 runs filtered: median of five", 0.5, cpu=("filtered", *_NAMES)),
    Goal("many", "back to 1,000 runs (s)", "back to the page of 1,000 runs", 0.5, cpu=("back", *_NAMES)),
    Goal("watched", "watched ÷ alone, server CPU", "a watched solve ÷ one alone, server CPU", 1.1, ""),
    Goal("watched", "charts a second", "charts a second meanwhile", 5.0, "", is_least=True),
    Goal("visitors", "growth (MB)", "visitors at once: growth of the server", 100.0, "MB"),
    Goal("visitors", "updates lost", "updates lost", 0, ""),
    Goal("visitors", "runs of others seen", "runs of others seen", 0, ""),
]


def lines_of(results: dict[str, Any]) -> list[str]:
    """Return the lines of the table; figures that miss their goal are bold."""
    lines = list(_HEAD)
    for goal in GOALS:
        part = results.get(goal.part, {})
        if goal.figure not in part:
            continue
        value = part[goal.figure]
        is_reached = value >= goal.most if goal.is_least else value <= goal.most
        said = _with_unit(value, goal.unit)
        lines.append(
            f"| {goal.words} | {_with_unit(goal.most, goal.unit)} | {said if is_reached else f'**{said}**'} | "
            + " | ".join(_cpu(part, goal.cpu))
            + " |"
        )
    return lines


def _cpu(part: dict[str, Any], names: tuple[str, ...]) -> tuple[str, str]:
    *groups, server, browser = names or ("", "")
    for group in groups:
        part = part.get(group, {})
    server_said, browser_said = (f"{part[name]:.2g} s" if name in part else "" for name in (server, browser))
    return server_said, browser_said


def _with_unit(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}".strip()


def write_table(results: dict[str, Any], path: Path = README) -> None:
    """Replace the table in a page."""
    before, mark, after = path.read_text("utf-8").partition(MARK)
    path.write_text(before + mark + "\n".join(lines_of(results)) + "\n\n" + after.partition("\n\n")[2], "utf-8")
