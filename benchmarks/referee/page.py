"""Make the page of the referee from files of results alone: losses, winners, charts, distances, every result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

import apviz
from apviz.files import file_made_whole
from benchmarks.leaderboard.page import DASHES, FAILED, PALETTE, Line, stills, template
from benchmarks.leaderboard.tables import number
from benchmarks.referee.entrants import ENTRANTS
from benchmarks.referee.results import cells, machines
from benchmarks.referee.tables import (
    GAP,
    NEAR,
    TIMES,
    complete,
    finished,
    losses,
    medians,
    profile,
    sooner,
    tabulate,
    winners,
)

LINES: dict[str, Line] = {
    name: {"color": PALETTE[place % len(PALETTE)], "dash": DASHES[place // len(PALETTE) % len(DASHES)]}
    for place, name in enumerate(ENTRANTS)
}
OTHER: Line = {"color": "#000000", "dash": "dot"}
#: by dash, since a single point shows none
SYMBOLS = dict(zip(DASHES, ("circle", "diamond", "square"), strict=True))
#: a chart shows NLLs up to this much above the best, in nats; a profile shows gaps from and to
SHOWN, LEAST_GAP, MOST_GAP = 1.5, 1e-3, 3.0


def make(folder: Path, entrants: Iterable[str] = tuple(ENTRANTS)) -> Path:
    """Write `index.html` into the folder of the results, of the tasks for which all entrants were measured.

    Raises:
        ValueError: no such results.
    """
    table = tabulate(cells(folder))
    of = table if table.empty else complete(medians(table), entrants)
    if of.empty:
        raise ValueError(f"{folder} has no task of all entrants; first: python -m benchmarks.referee")
    own = of[of["track"] == "own"]
    budgets = sorted(own["budget"].unique())
    page = template(Path(__file__).parent).render(
        version=apviz.__version__, plotly="", machines=machines(folder), gap=GAP, near=NEAR, times=TIMES, shown=SHOWN,
        losses=_losses(losses(of)), sooner=_sooner(sooner(of)), asked=len(own.groupby(["data", "n", "budget"])),
        comparisons=len(of.groupby(["data", "n", "track", "budget"])), winners=_winners(winners(of), budgets),
        budgets=[f"{budget:g}" for budget in budgets], lines=LINES, charts=_charts(own),
        profiles=_profiles(own, budgets), distances=_distances(of[of["track"] == "same"]), sections=_sections(of),
        measured=measured(of),
    )  # fmt: skip
    target = folder / "index.html"
    with file_made_whole(target) as file:
        file.write(page.encode())
    return target


def measured(of: pd.DataFrame) -> list[str]:
    """Return what was measured: a line for each number of rows, budget, track and number of seeds, with the data."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for (data, n, budget, track), own in of.groupby(["data", "n", "budget", "track"], sort=False):
        found.setdefault((n, budget, int(own["seeds"].min()), track), []).append(str(data))
    return [
        f"{n:,} rows, {budget:g} s, track {track}, {seeds} seed{'s' if seeds > 1 else ''}: {', '.join(names)}"
        for (n, budget, seeds, track), names in sorted(found.items())
    ]


# --- tables -----------------------------------------------------------------------------------------------------------


def _cell(value: float, text: str | None = None) -> dict[str, str]:
    fine = math.isfinite(value)
    return {"text": (text or number(value)) if fine else "not finished", "value": str(value) if fine else FAILED}


def _nll(value: float) -> dict[str, str]:
    return _cell(value, f"{value:.3f}".replace("-", "−"))


def _losses(found: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {
            "data": row["data"], "n": row["n"], "inputs": row["inputs"], "budget": row["budget"],
            "ours": _nll(row["ours"]), "best": row["best"], "theirs": _nll(row["theirs"]),
            "seconds": [_cell(row["our seconds"]), _cell(row["their seconds"])], "gap": _nll(row["gap"]),
        }
        for _, row in found.iterrows()
    ]  # fmt: skip


def _sooner(found: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {
            "data": row["data"], "n": row["n"], "track": row["track"], "budget": row["budget"], "ours": row["ours"],
            "first": row["first"], "seconds": [_cell(row["our seconds"]), _cell(row["their seconds"])],
            "nll": [_nll(row["our nll"]), _nll(row["their nll"])], "times": _cell(row["times"]),
        }
        for _, row in found.iterrows()
    ]  # fmt: skip


def _winners(found: list[dict[str, Any]], budgets: list[float]) -> list[dict[str, Any]]:
    return [
        row | {"noise": number(row["noise"]), "best": [_winner(row["best"].get(budget)) for budget in budgets]}
        for row in found
    ]


def _winner(best: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the best of a task, and behind it apviz's NLL if it is worse."""
    if best is None:
        return {"text": "not measured", "value": FAILED, "band": ""}
    is_ours = best["ours"] <= best["nll"]
    band = "" if is_ours else f"apviz: {_nll(best['ours'])['text']}"
    return {"text": f"{best['entrant']} {_nll(best['nll'])['text']}", "value": best["entrant"], "band": band}


def _distances(of: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table for every data set and n: the largest budget that was measured."""
    found = []
    for (data, n), every in of.groupby(["data", "n"], sort=False):
        task = finished(every[every["budget"] == every["budget"].max()]).sort_values("off")
        rows = [
            {
                "entrant": row["entrant"], "off": _cell(row["off"]), "off95": _cell(row["off95"]),
                "sd": _cell(row["sd"]), "nll": _nll(row["nll"]), "seconds": _cell(row["seconds"]),
            }
            for _, row in task.iterrows()
        ]  # fmt: skip
        found.append({"data": data, "n": n, "budget": every["budget"].max(), "rows": rows})
    return found


def _sections(of: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table for every data set, n, track and budget."""
    found = []
    for (data, n, track, budget), task in of.groupby(["data", "n", "track", "budget"], sort=False):
        rows = [
            {
                "entrant": row["entrant"], "outcome": "" if row["outcome"] == "done" else row["outcome"],
                "cells": _row(row) if math.isfinite(row["nll"]) else [],
            }
            for _, row in task.iterrows()
        ]  # fmt: skip
        found.append(
            {"data": data, "n": n, "track": track, "budget": budget, "seeds": task["seeds"].max(), "rows": rows}
        )
    return found


def _row(row: Mapping[str, Any]) -> list[dict[str, str]]:
    nll = _nll(row["nll"])
    if row["seeds"] > 1:
        nll["band"] = f"{_nll(row['least'])['text']} to {_nll(row['most'])['text']}"
    others = [_cell(row[name], f"{row[name]:.3f}") for name in ("rmse", "crps", "coverage", "width")]
    return [nll, *others, _cell(row["seconds"]), _cell(row["memory"], f"{row['memory']:,.0f}")]


# --- charts -----------------------------------------------------------------------------------------------------------


def _charts(own: pd.DataFrame) -> list[dict[str, Any]]:
    """Plot NLL against seconds, a chart for every data set and n, and name the entrants above its axis."""
    found = []
    for (data, n), of in own.groupby(["data", "n"], sort=False):
        done = finished(of)
        if done.empty:
            continue
        low, most = float(done["nll"].min()), float(done["nll"].max())
        high = low + min(SHOWN, 1.1 * (most - low) + 0.05)
        above = sorted(set(done["entrant"]) - set(done[done["nll"] <= high]["entrant"]))
        found.append({"title": f"{data}, n = {n:,}", "svg": stills(pareto_figure(done, high)), "above": above})
    return found


def pareto_figure(done: pd.DataFrame, high: float) -> go.Figure:
    """Return a curve over the budgets for every entrant, and the Pareto front as a dotted line."""
    figure, seen = go.Figure(), done[done["nll"] <= high]
    least = float(seen["nll"].min())
    for entrant, own in seen.groupby("entrant", sort=False):
        line, own = LINES.get(str(entrant), OTHER), own.sort_values("seconds")
        figure.add_scatter(
            x=own["seconds"].tolist(), y=own["nll"].tolist(), mode="lines+markers", name=str(entrant),
            line={**line, "width": 2}, marker={"color": line["color"], "size": 8, "symbol": SYMBOLS[line["dash"]]},
        )  # fmt: skip
    front = seen.sort_values("seconds")
    front = front[front["nll"] <= front["nll"].cummin()]
    figure.add_scatter(
        x=np.repeat(front["seconds"].to_numpy(), 2)[1:].tolist(), y=np.repeat(front["nll"].to_numpy(), 2)[:-1].tolist(),
        mode="lines", name="Pareto front", line={"color": "#999999", "dash": "dot", "width": 1},
    )  # fmt: skip
    low, most = float(seen["seconds"].min()), float(seen["seconds"].max())
    figure.update_layout(
        xaxis={"type": "log", "title": "processor seconds", "range": [math.log10(0.7 * low), math.log10(1.4 * most)]},
        yaxis={"title": "NLL (nats)", "range": [least - 0.05 * (high - least), high]},
    )
    return figure


def _profiles(own: pd.DataFrame, budgets: list[float]) -> list[dict[str, Any]]:
    charts = []
    for budget in budgets:
        of = own[own["budget"] == budget]
        tasks = len(of.groupby(["data", "n"]))
        title = f"{budget:g} s, {tasks} task{'s' if tasks > 1 else ''}"
        charts.append({"title": title, "svg": stills(profiles_figure(profile(of)))})
    return charts


def profiles_figure(curves: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> go.Figure:
    """Return curves of `profile`, as steps."""
    figure = go.Figure()
    for entrant, (gaps, shares) in curves.items():
        if not len(gaps):
            continue
        x = np.maximum(np.append(gaps, 2 * max(MOST_GAP, gaps[-1])), LEAST_GAP)
        figure.add_scatter(
            x=np.repeat(x, 2)[1:].tolist(), y=[*np.repeat(shares, 2).tolist(), float(shares[-1])][: 2 * len(x) - 1],
            mode="lines", name=entrant, line={**LINES.get(entrant, OTHER), "width": 2},
        )  # fmt: skip
    figure.update_layout(
        xaxis={
            "type": "log",
            "range": [math.log10(LEAST_GAP), math.log10(MOST_GAP)],
            "title": "NLL − the least (nats)",
        },
        yaxis={"range": [0, 1.02], "title": "share of tasks"},
    )  # fmt: skip
    return figure
