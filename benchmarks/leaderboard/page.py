"""Make the page of the leaderboard from files of results alone: losses, profiles, cost against n, every system."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import jinja2
import numpy as np
import pandas as pd
import plotly.graph_objects as go

import apviz
from apviz.files import file_made_whole
from apviz.plots._style import ThemeName
from benchmarks.leaderboard.cells import TOLERANCES
from benchmarks.leaderboard.checking import ENTRIES
from benchmarks.leaderboard.growth import Growth, Law, estimates, growth, words
from benchmarks.leaderboard.plan import GROWING_LIMIT, GROWING_TOL, LARGE_LIMIT, SIZES
from benchmarks.leaderboard.still import still
from benchmarks.leaderboard.systems import N
from benchmarks.leaderboard.tables import (
    LOSS,
    MEASURES,
    coarse,
    comparable,
    losses,
    medians,
    number,
    profile,
    standings,
    tabulate,
)

# safe for the colour-blind (Okabe & Ito), on light and dark
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
DASHES = ("solid", "dash", "dot")
# end of the profiles: beyond it, only the share of solved tasks tells methods apart
MOST_TIMES = 1000.0
FAILED = "1e99"

Line = dict[str, Any]


def make(folder: Path) -> Path:
    """Write `index.html` into the folder of the results.

    Raises:
        ValueError: no results.
    """
    table = tabulate(folder)
    if table.empty:
        raise ValueError(f"{folder} has no results; first: python -m benchmarks.leaderboard run")
    every = medians(table)
    of = every[every["n"] == N] if (every["n"] == N).any() else every[every["n"] == every["n"].min()]
    lines = lines_of(of)
    grown = sorted(growth(every), key=lambda each: each.system)
    sizes = sorted({n for each in grown for n in each.cells})
    page = template(Path(__file__).parent).render(
        version=apviz.__version__, plotly="", losses=_loss_rows(losses(of)), loss=LOSS, lines=lines,
        asked=len(of[of["entrant"] == "auto"]), standings=_standings(of), profiles=_profiles(of, lines),
        sections=_sections(of), tolerances=[_tolerance(tol) for tol in TOLERANCES], machines=machines(folder),
        growth=_growth_rows(grown, sizes), growth_figures=_growth_figures(grown, lines), sizes=sizes,
        estimates=len(estimates(grown)), entries=ENTRIES, limits=(GROWING_LIMIT, LARGE_LIMIT), largest=SIZES[-1],
        n=int(of["n"].iloc[0]), limit=number(float(table[table["n"] == of["n"].iloc[0]]["limit"].max())),
        seeds=_seeds(of), systems=int(of["system"].nunique()),
    )  # fmt: skip
    target = folder / "index.html"
    with file_made_whole(target) as file:
        file.write(page.encode())
    return target


def template(folder: Path) -> jinja2.Template:
    """Return the template of a page in a folder, which may include those of this folder and of apviz's reports."""
    loader = jinja2.ChoiceLoader(
        [
            jinja2.FileSystemLoader([folder, Path(__file__).parent]),
            jinja2.PackageLoader("apviz.report", "templates"),
        ]
    )
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template("page.html.jinja")


def _seeds(of: pd.DataFrame) -> str:
    """Return the number of seeds of a system: `1`, or `1 to 5`."""
    least, most = (int(of["seeds"].agg(each)) for each in ("min", "max"))
    return f"{least}" if least == most else f"{least} to {most}"


def _tolerance(tol: float) -> str:
    return f"{tol:g}".replace("e-0", "e-")


def machines(folder: Path) -> list[str]:
    """Return the machines of the measurements."""
    seen = {}
    for path in sorted(folder.glob("*.json")):
        for cell in json.loads(path.read_text())["cells"].values():
            machine = cell["machine"]
            versions = ", ".join(f"{name} {machine['versions'][name]}" for name in ("torch",))
            seen[
                f"one core of {machine['cores']} of {machine['processor']}, {machine['memory_gib']:.0f} GiB, "
                f"Python {machine['python']}, {versions}"
            ] = True
    return list(seen)


# --- tables -----------------------------------------------------------------------------------------------------------


def _loss_rows(found: pd.DataFrame) -> list[dict[str, Any]]:
    rows = []
    for _, row in found.iterrows():
        fails = not math.isfinite(row["seconds"])
        rows.append({
            "system": row["system"], "tol": _tolerance(row["tol"]), "best": row["entrant of best"],
            "ours": _cell(math.inf if fails else row["seconds"], "fails"),
            "theirs": _cell(row["seconds of best"]), "times": _cell(row["regret"], "fails"), "reason": row["reason"],
        })  # fmt: skip
    return rows


def _standings(of: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {"family": kind, "rows": standings(tasks).to_dict("records"), "systems": tasks["system"].nunique()}
        for kind, tasks in of.groupby("family", sort=False)
    ]


def _cell(value: float, failed: str = "–") -> dict[str, str]:
    fine = math.isfinite(value)
    return {"text": number(value) if fine else failed, "value": str(value) if fine else FAILED}


def _sections(of: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table for every system: entrants in the order of the tasks that they solve, then of seconds."""
    found = []
    for (kind, system), tasks in of.groupby(["family", "system"], sort=False):
        rows = []
        for entrant, own in tasks.groupby("entrant", sort=False):
            by_tol = own.set_index("tol")
            cells = [_task(by_tol.loc[tol]) if tol in by_tol.index else _cell(math.inf) for tol in TOLERANCES]
            done = np.isfinite(by_tol["seconds"]).sum()
            last = next((by_tol.loc[tol, "failure"] for tol in by_tol.index if by_tol.loc[tol, "failure"]), "")
            rows.append((-done, float(by_tol["seconds"].replace(math.inf, 0.0).sum()), [entrant, *cells, last]))
        found.append({
            "family": kind, "system": system, "seeds": _seeds(tasks),
            "rows": [row for *_, row in sorted(rows, key=lambda row: row[:2])],
        })  # fmt: skip
    return found


def _task(row: Mapping[str, Any]) -> dict[str, str]:
    """Return seconds and work, and their bands over seeds if there are several."""
    cell = _cell(row["seconds"])
    if math.isfinite(row["seconds"]):
        cell["text"] += " s" + ("" if math.isnan(row["work"]) else f" · {number(row['work'])}")
    if row["seeds"] > 1 and math.isfinite(row["seconds least"]):
        cell["band"] = f"{_band(row, 'seconds')} s" + (
            "" if math.isnan(row["work least"]) else f" · {_band(row, 'work')}"
        )
    return cell


def _band(row: Mapping[str, Any], measure: str) -> str:
    least, most = row[f"{measure} least"], row[f"{measure} most"]
    return f"{number(least)} to {number(most) if math.isfinite(most) else 'failed'}"


def _growth_rows(found: Sequence[Growth], sizes: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {
            "system": each.system, "entrant": each.entrant, "seconds": [_growth_cell(each, n) for n in sizes],
            "exponents": [_exponent(each.laws[measure]) for measure in MEASURES],
        }
        for each in found
    ]  # fmt: skip


def _growth_cell(of: Growth, n: int) -> dict[str, str]:
    """Return seconds, and the number of rows of an estimated residual; or the reason why there are none."""
    if n in of.foreseen:
        about = of.foreseen[n]
        why = f"about {coarse(about)} s by its exponent" if math.isfinite(about) else "it failed with fewer rows"
        return {"text": "", "value": FAILED, "band": f"not tried: {why}"}
    if n not in of.cells:
        return {"text": "", "value": FAILED}
    row = of.cells[n]
    if not math.isfinite(row["seconds"]):
        return {"text": _failed(row), "value": FAILED}
    cell = _cell(row["seconds"])
    if math.isfinite(row["drawn"]):
        cell["band"] = (
            f"{row['residual']:.2g} ± {100 * row['error'] / row['residual']:.2g}%, "
            f"estimated from {row['drawn']:,.0f} rows"
        )
    return cell


def _failed(row: Mapping[str, Any]) -> str:
    return f"over {number(row['limit'])} s" if row["failure"] == "limit" else str(row["failure"])


def _exponent(law: Law) -> dict[str, str]:
    fine = math.isfinite(law.exponent)
    cell = {"text": words(law), "value": str(law.exponent) if fine else FAILED}
    return cell | ({"band": f"{law.sizes[0]:,} to {law.sizes[-1]:,}"} if fine else {})


# --- charts -----------------------------------------------------------------------------------------------------------


def lines_of(of: pd.DataFrame) -> dict[str, Line]:
    """Return colour and dash of every entrant, in the order of the number of solved tasks."""
    names = standings(of)["entrant"]
    return {
        name: {"color": PALETTE[place % len(PALETTE)], "dash": DASHES[place // len(PALETTE) % len(DASHES)]}
        for place, name in enumerate(names)
    }


def _profiles(of: pd.DataFrame, lines: Mapping[str, Line]) -> list[dict[str, Any]]:
    """Return a group of four charts, one a tolerance, for every family and measure."""
    groups = []
    for (kind, tasks), measure in itertools.product(of.groupby("family", sort=False), MEASURES):
        counted = comparable(tasks, measure)
        missing = sorted(set(tasks["entrant"]) - set(counted.columns))
        charts = [
            {
                "title": f"to {_tolerance(tol)}",
                "svg": stills(profiles_figure(tasks[tasks["tol"] == tol], measure, lines)),
            }
            for tol in TOLERANCES
        ]
        groups.append({
            "heading": f"{kind.capitalize()} systems, {measure}", "charts": charts, "missing": missing,
            "systems": counted.index.get_level_values("system").nunique() if len(counted) else 0, "measure": measure,
        })  # fmt: skip
    return groups


def stills(figure: go.Figure) -> dict[str, str]:
    """Return a chart without a script, in each theme."""
    return {theme: still(figure, theme) for theme in get_args(ThemeName)}


def profiles_figure(of: pd.DataFrame, measure: str, lines: Mapping[str, Line]) -> go.Figure:
    """Return curves of `profile`, as steps."""
    curves = profile(of, measure)
    most = max([10.0, *(float(taus[-1]) for taus, _ in curves.values())]) * 1.2
    figure = go.Figure()
    for name in reversed([each for each in lines if each in curves]):  # the best lies above the others
        taus, shares = curves[name]
        figure.add_scatter(
            x=np.append(np.repeat(taus, 2)[1:], most), y=np.repeat(shares, 2), mode="lines", name=name,
            line={**lines[name], "width": 2},
        )  # fmt: skip
    high = math.log10(min(most, MOST_TIMES))
    figure.update_layout(
        xaxis={"type": "log", "range": [0, high], "title": f"{measure} ÷ the least of all"},
        yaxis={"range": [0, 1.02], "title": "share of systems done"},
    )
    return figure


def _growth_figures(found: Sequence[Growth], lines: Mapping[str, Line]) -> list[dict[str, Any]]:
    """Plot seconds against n, a chart for every system; a cross marks a limit that was hit, a ring an estimate."""
    charts = []
    for system, of in itertools.groupby(found, lambda each: each.system):
        figure, values, sizes = go.Figure(), [], {N}
        for each in of:
            line = lines[each.entrant]
            done = {n: row["seconds"] for n, row in each.cells.items() if math.isfinite(row["seconds"])}
            over = {n: row["limit"] for n, row in each.cells.items() if row["failure"] == "limit"}
            foreseen = {n: value for n, value in each.foreseen.items() if math.isfinite(value)}
            for by_n, symbol, size in ((done, "circle", 7), (over, "x", 11), (foreseen, "circle-open", 15)):
                figure.add_scatter(
                    x=list(by_n), y=list(by_n.values()), mode="lines+markers" if by_n is done else "markers",
                    name=each.entrant, line={**line, "width": 2},
                    marker={"color": line["color"], "size": size, "symbol": symbol},
                )  # fmt: skip
                values.extend(by_n.values())
                sizes.update(by_n)
        decades = [math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))] if values else [0, 1]
        figure.update_layout(
            xaxis={"type": "log", "title": "n", "range": [math.log10(0.8 * N), math.log10(1.25 * max(sizes))]},
            yaxis={"type": "log", "title": f"seconds to {GROWING_TOL:g}", "range": decades},
        )
        charts.append({"title": system, "svg": stills(figure)})
    return charts
