"""The page of the leaderboard, from the files of results alone: losses first, profiles, a table of every system."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

import apviz
from apviz.plots._style import ThemeName, theme_named
from apviz.report.rendering import Figure, embedded
from benchmarks.leaderboard.cells import TOLERANCES
from benchmarks.leaderboard.systems import family

AUTO = "auto"
# regrets above are listed
LOSS = 1.2
MEASURES = ("seconds", "work")
# safe for the colour-blind (Okabe & Ito), on light and dark
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
DASHES = ("solid", "dash", "dot")


def tabulate(folder: Path) -> pd.DataFrame:
    """Rows: system, family, entrant, seed, tolerance; seconds and work, infinite where it failed, and why."""
    rows = []
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text())
        for key, cell in found["cells"].items():
            entrant, _, seed = key.rpartition(" | seed ")
            for tol in TOLERANCES:
                reached = cell["reached"].get(f"{tol:g}")
                rows.append({
                    "system": found["system"], "family": family(found["system"]), "entrant": entrant,
                    "seed": int(seed), "tol": tol, "failure": "" if reached else cell.get("failure", "not asked"),
                    "seconds": reached["seconds"] if reached else math.inf,
                    "work": _work(reached) if reached else math.inf,
                })  # fmt: skip
    return pd.DataFrame(rows)


def _work(reached: Mapping[str, Any]) -> float:
    """NaN of an entrant that evaluates entries by itself."""
    return math.nan if reached["work"] is None else float(reached["work"])


def medians(table: pd.DataFrame) -> pd.DataFrame:
    """Over the seeds: the median, the least and the most of each; where half of the seeds failed it is infinite."""
    by = table.groupby(["family", "system", "tol", "entrant"], sort=False)
    found = by[["seconds", "work"]].quantile(0.5, interpolation="higher")
    for name in MEASURES:
        found[f"{name} least"], found[f"{name} most"] = by[name].min(), by[name].max()
    found["seeds"] = by["seed"].nunique()
    found["failure"] = by["failure"].agg(lambda words: next((word for word in words if word), ""))
    return found.reset_index()


def profile(of: pd.DataFrame, measure: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Dolan & Moré's ρ(τ) of every entrant, over the systems and tolerances that all were asked for.

    Returns:
        By entrant τ, from 1, and the share of tasks done at no more than τ times the least of `measure`.
    """
    wide = of.pivot_table(index=["system", "tol"], columns="entrant", values=measure, aggfunc="first", dropna=False)
    wide = wide.loc[:, wide.notna().mean() > 0.5].dropna()  # entrants that count, on tasks that all were asked for
    ratios = wide.div(wide.min(axis=1), axis=0)  # not a number where nobody was done
    found = {}
    for name in wide.columns:
        taus, counts = np.unique(ratios[name][np.isfinite(ratios[name])].to_numpy(), return_counts=True)
        shares = counts.cumsum() / max(1, len(wide))
        if not len(taus) or taus[0] > 1:
            taus, shares = np.append(1.0, taus), np.append(0.0, shares)
        found[name] = taus, shares
    return found


def losses(of: pd.DataFrame) -> pd.DataFrame:
    """Where `auto` takes more than 1.2 times the seconds of the best, or fails what another does; the worst first."""
    best = of.loc[of.groupby(["system", "tol"])["seconds"].idxmin()].set_index(["system", "tol"])
    ours = of[of["entrant"] == AUTO].set_index(["system", "tol"])
    joined = ours.join(best[["entrant", "seconds", "work"]].add_suffix(" of best"))
    joined = joined[np.isfinite(joined["seconds of best"])]
    joined["regret"] = joined["seconds"] / joined["seconds of best"]
    return joined[joined["regret"] > LOSS].sort_values("regret", ascending=False).reset_index()


def profiles_figure(of: pd.DataFrame, measure: str, theme: ThemeName) -> go.Figure:
    """Curves of `profile`; colours in the order of how much is done at all."""
    colors, curves = theme_named(theme), profile(of, measure)
    order = sorted(curves, key=lambda name: (-curves[name][1][-1], -curves[name][1][0]))
    most = max([10.0, *(float(ratios[-1]) for ratios, _ in curves.values() if len(ratios))]) * 1.2
    figure = go.Figure()
    for number, name in enumerate(order):
        (ratios, shares), dash = curves[name], DASHES[number // len(PALETTE) % len(DASHES)]
        figure.add_scatter(
            x=np.append(ratios, most), y=np.append(shares, shares[-1]), mode="lines", name=f"{name}: {shares[-1]:.0%}",
            line={"shape": "hv", "color": PALETTE[number % len(PALETTE)], "dash": dash, "width": 2},
            hovertemplate=f"<b>{name}</b><br>%{{y:.0%}} within %{{x:.3g}} times the least<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        template="plotly_dark" if theme == "dark" else "plotly_white",
        paper_bgcolor=colors.paper, plot_bgcolor=colors.paper, height=680,
        margin={"l": 60, "r": 20, "t": 20, "b": 20},
        legend={"orientation": "h", "y": -0.15, "yanchor": "top", "title": "done at all: "},
        xaxis={"type": "log", "dtick": 1, "title": f"{measure} ÷ the least of all entrants"},
        yaxis={"title": "share of tasks done", "tickformat": ".0%", "range": [0, 1.02]},
    )  # fmt: skip
    return figure


def make(folder: Path) -> Path:
    """Writes `index.html` into the folder of the results.

    Raises:
        ValueError: no results.
    """
    table = tabulate(folder)
    if table.empty:
        raise ValueError(f"{folder} has no results; first: python -m benchmarks.leaderboard run")
    of = medians(table)
    figures: list[Figure] = []
    for kind, measure in itertools.product(of["family"].unique(), MEASURES):
        tasks = of[of["family"] == kind]
        text = (
            f"Performance profiles (Dolan & Moré, 2002) over {tasks['system'].nunique()} systems and {len(TOLERANCES)} "
            f"tolerances: a curve begins at the share of tasks on which the method takes the least {measure}, and ends "
            "at the share that it does at all."
        )
        draw = functools.partial(profiles_figure, tasks, measure)
        figures.append(embedded(f"{kind.capitalize()} systems, {measure}", text, draw))
    loader = jinja2.ChoiceLoader(
        [jinja2.FileSystemLoader(Path(__file__).parent), jinja2.PackageLoader("apviz.report", "templates")]
    )
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    target = folder / "index.html"
    target.write_text(
        environment.get_template("page.html.jinja").render(
            version=apviz.__version__, plotly=get_plotlyjs(), figures=figures, losses=_loss_rows(losses(of)),
            sections=_sections(of), tolerances=[f"{tol:g}" for tol in TOLERANCES], machine=_machine(folder),
            seeds=int(table["seed"].nunique()), loss=LOSS,
        )
    )  # fmt: skip
    return target


def _loss_rows(found: pd.DataFrame) -> list[list[str]]:
    rows = []
    for _, row in found.iterrows():
        fails = not math.isfinite(row["seconds"])
        ours, times = (row["failure"], "fails") if fails else (_number(row["seconds"]), f"{row['regret']:.1f}")
        best = row["entrant of best"], _number(row["seconds of best"])
        rows.append([row["system"], f"{row['tol']:g}", ours, *best, times])
    return rows


def _sections(of: pd.DataFrame) -> list[dict[str, Any]]:
    """A table for every system: entrants in the order of what they reach, then of seconds at 0.01."""
    found = []
    for (kind, system), tasks in of.groupby(["family", "system"], sort=False):
        rows = []
        for entrant, own in tasks.groupby("entrant", sort=False):
            by_tol = own.set_index("tol")
            cells = [_cell(by_tol.loc[tol]) for tol in TOLERANCES]
            done = np.isfinite(by_tol["seconds"]).sum()
            last = next((by_tol.loc[tol, "failure"] for tol in TOLERANCES if by_tol.loc[tol, "failure"]), "")
            rows.append((-done, float(by_tol["seconds"].replace(math.inf, 1e9).sum()), [entrant, *cells, last]))
        found.append(
            {"family": kind, "system": system, "rows": [row for *_, row in sorted(rows, key=lambda row: row[:2])]}
        )
    return found


def _cell(row: Mapping[str, Any]) -> dict[str, str]:
    if not math.isfinite(row["seconds"]):
        return {"text": "–", "value": "1e99"}
    work = "" if math.isnan(row["work"]) else f" · {_number(row['work'])}"
    return {"text": f"{_number(row['seconds'])} s{work}", "value": str(row["seconds"])}


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _machine(folder: Path) -> Sequence[str]:
    """What was measured on."""
    seen = {}
    for path in folder.glob("*.json"):
        for cell in json.loads(path.read_text())["cells"].values():
            machine = cell["machine"]
            seen[f"{machine['processor']}, {machine['cores']} cores, {machine['threads']} threads of torch"] = True
    return list(seen)
