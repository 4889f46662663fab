"""The table and the chart of `benchmarks.solvers`, from its result files: `python -m benchmarks.table`.

Writes the table into the README next to this file, between its two marks, and the chart to `results/solvers.png` (needs
kaleido and a browser; `--no-chart` leaves it).
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.machine import RESULTS
from benchmarks.solvers import AUTO, CHOLESKY, FOLDER, GPYTORCH, machine

README = Path(__file__).with_name("README.md")
MARKS = ("<!-- the table of benchmarks.table -->", "<!-- its end -->")
TOL = "0.01"
A, B = "A: AP, overlapping", "B: CG, two-level Schwarz"
PAPER = "AP, the paper's"
#: tolerances other than 0.01, in a separate table
SMALLER = ("0.001", "1e-06")
OTHER_CG = ("CG", "CG, pivoted Cholesky 100", "CG, pivoted Cholesky 500", "CG, randomly pivoted Cholesky")
COLUMNS = {
    PAPER: "paper's AP", A: "A", "A, every column": "A, every column", B: "B", CHOLESKY: "Cholesky", "CG": "CG",
    OTHER_CG[1]: "PCG 100", OTHER_CG[2]: "PCG 500", OTHER_CG[3]: "rPCG",
}  # fmt: skip


def results() -> list[dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]
    return sorted(found, key=lambda one: (one["n"], one["dataset"], one["right-hand sides"]))


def chosen(result: dict[str, Any]) -> str:
    """The method `auto` took."""
    name, _, why = result["auto"].partition(": ")
    if name == "AlternatingProjection":
        return A
    return OTHER_CG[-1] if "with rank" in why else OTHER_CG[0]


def reached(cell: dict[str, Any] | None, what: str, tol: str = TOL) -> tuple[float, bool]:
    """Work or seconds to the tolerance, and whether it was reached; else what was spent without reaching it."""
    if cell is None:
        return float("nan"), False
    if tol in cell["reached"]:
        return float(cell["reached"][tol][what]), True
    return float(cell[what]), False


def by_auto(result: dict[str, Any], what: str, tol: str = TOL) -> tuple[float, bool]:
    """Of `auto`, choosing included."""
    return reached(result["cells"].get(AUTO), what, tol)


def ratio(result: dict[str, Any], others: tuple[str, ...], what: str, tol: str = TOL) -> str:
    """The best of the others over what `auto` took: `5.0×`, or `> 5.0×` where none of the others converged."""
    ours, done = by_auto(result, what, tol)
    if not done:
        return "–"
    others = tuple(name for name in others if name != chosen(result))
    cells = [reached(result["cells"][name], what, tol) for name in others if name in result["cells"]]
    ends = [value for value, ok in cells if ok]
    if ends:
        return f"{min(ends) / ours:.1f}×"
    # each was stopped at the limit: even the one that spent least had not converged
    return f"> {rounded_down(min(value for value, _ in cells) / ours)}×" if cells else "–"


def rounded_down(bound: float) -> str:
    """A lower bound with two digits, never above what was measured."""
    return f"{math.floor(bound)}" if bound >= 10 else f"{math.floor(10 * bound) / 10:.1f}"


def gpytorch_ratio(result: dict[str, Any]) -> str:
    """Seconds of GPyTorch's own solve over ours; `≥` reckoned, a measured iteration times the iterations CG needs.

    Those are the fewest of plain CG and of pivoted Cholesky of rank 100 and 500; its set-up is left out.
    """
    cell = result["cells"].get(GPYTORCH)
    ours, done = by_auto(result, "seconds")
    cells = [result["cells"][name] for name in OTHER_CG[:3] if name in result["cells"]]
    if cell is None or not done or not cells:
        return "–"
    if TOL in cell["reached"]:
        return f"{cell['reached'][TOL]['seconds'] / ours:.0f}×"
    ends = [one["reached"][TOL]["epochs"] for one in cells if TOL in one["reached"]]
    iterations = min(ends or [one["epochs"] for one in cells])
    return f"{'≥' if ends else '>'} {rounded_down(iterations * cell['seconds an iteration'] / ours)}×"


def machine_of(result: dict[str, Any]) -> str:
    """The machine a row was measured on.

    Raises:
        ValueError: its cells are of several, so that their ratios would mean nothing.
    """
    found = {machine(cell["machine"]) for name, cell in result["cells"].items() if name in {*COLUMNS, GPYTORCH}}
    if len(found) != 1:
        name = f"{result['dataset']}, n = {result['n']:,}, {result['right-hand sides']} right-hand sides"
        raise ValueError(f"{name}: cells are of {len(found)} machines ({'; '.join(sorted(found))}); a row is of one")
    return found.pop()


def shown(cell: dict[str, Any] | None, tol: str = TOL) -> str:
    """`work (seconds)`, or the bound on both."""
    if cell is None:
        return "–"
    (work, done), (seconds, _) = reached(cell, "work", tol), reached(cell, "seconds", tol)
    text = f"{work:.1f} ({seconds:.1f} s)" if work < 100 else f"{work:.0f} ({seconds:.0f} s)"
    return text if done else f"> {text}"


def table() -> str:
    """Work and seconds to 0.01 in Markdown; what `auto` chooses is bold."""
    heading = ["data, n, right-hand sides", *COLUMNS.values(), "work: paper's ÷ auto", "time: best other CG ÷ auto",
               "time: GPyTorch + KeOps ÷ auto"]  # fmt: skip
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    found = results()
    machines = [name for name, _ in Counter(machine_of(one) for one in found).most_common()]
    for one in found:
        cells = []
        for name in COLUMNS:
            text = shown(one["cells"].get(name))
            cells.append(f"**{text}**" if name == chosen(one) else text)
        mark = "†" * machines.index(machine_of(one))
        row = [f"{one['dataset']}, {one['n']:,}, {one['right-hand sides']}{mark}", *cells]
        row += [ratio(one, (PAPER,), "work"), ratio(one, OTHER_CG, "seconds"), gpytorch_ratio(one)]
        lines.append("| " + " | ".join(row) + " |")
    lines += ["", "Measured " + ", ".join(f"{'†' * k} on {name}".strip() for k, name in enumerate(machines)) + "."]
    return "\n".join(lines)


def smaller_tolerances() -> str:
    """Work and seconds of `auto`, A, Cholesky and the best CG to 0.001 and 1e-6 in Markdown."""
    names = {AUTO: "auto", A: "A", B: "B", CHOLESKY: "Cholesky", OTHER_CG[2]: "PCG 500", OTHER_CG[3]: "rPCG"}
    heading = ["data, n, right-hand sides", *(f"{name} to {tol}" for tol in SMALLER for name in names.values())]
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    for one in results():
        row = [f"{one['dataset']}, {one['n']:,}, {one['right-hand sides']}"]
        for tol in SMALLER:
            cells = [one["cells"].get(name) for name in names]
            row += [shown(cell, tol) if cell and tol in cell["reached"] else "–" for cell in cells]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def chart() -> None:
    import plotly.graph_objects as go

    figure = go.Figure()
    sets = results()
    names = [f"{one['dataset']}<br>n = {one['n']:,}, {one['right-hand sides']} rhs" for one in sets]
    colors = (
        "#1F77D0", "#5A7A00", "#7FA52B", "#C98A00", "#D6336C", "#A83600", "#1A1A1F", "#77777F", "#7A45F0",
    )  # fmt: skip
    symbols = (
        "square", "star", "star-diamond", "hexagram", "cross", "circle", "triangle-up", "triangle-down", "diamond",
    )  # fmt: skip
    for (method, label), color, symbol in zip(COLUMNS.items(), colors, symbols, strict=True):
        points = [reached(one["cells"].get(method), "seconds") for one in sets]
        figure.add_scatter(
            x=[value for value, _ in points], y=names, mode="markers", name=label,
            marker={
                "color": color, "size": 14 if label in "AB" else 10,
                "symbol": [symbol if done else f"{symbol}-open" for _, done in points],
            },
        )  # fmt: skip
    figure.update_layout(
        template="plotly_white", title="Time to 0.01 on 2 cores; open: not reached by then",
        xaxis={"type": "log", "dtick": 1, "minor": {"ticks": "inside"}, "title": "time to a residual of 0.01 (s)"},
        yaxis={"autorange": "reversed"}, legend={"orientation": "h", "yanchor": "bottom", "y": 1, "x": -0.2},
        margin={"l": 190, "t": 110, "b": 60, "r": 20},
    )  # fmt: skip
    figure.write_image(RESULTS / "solvers.png", width=1000, height=170 + 44 * len(sets), scale=1.5)


def main() -> None:
    text = README.read_text()
    before, rest = text.split(MARKS[0])
    _, after = rest.split(MARKS[1], 1)
    README.write_text(
        f"{before}{MARKS[0]}\n{table()}\n\nTo smaller tolerances; –: not within the time limit.\n\n"
        f"{smaller_tolerances()}\n{MARKS[1]}{after}"
    )
    if "--no-chart" not in sys.argv:
        chart()


if __name__ == "__main__":
    main()
