"""Compare the forecasts of `apviz.advise` with measured solves.

Registered data sets with the hyperparameters of their cards, and with their noise times 0.01 and 10; n = 6,000 and
14,000 rows, 1 and 16 right-hand sides, float32, to 0.01. Every method with a complete rehearsal also solves the system.
Seconds are processor seconds on one thread, so that other processes on the machine hardly matter. A forecast is
right within a factor f if neither number is more than f times the other. Regret is the seconds of the advised
method ÷ those of the fastest, without and with the advice's own; the cost model is measured again for every advice.
Thorough advice tests every method. The advice of default settings, which spends at most a tenth of the solve, is made
before it; if it tests nothing, its method, `Automatic`, is solved too.

    OMP_NUM_THREADS=1 python -m benchmarks.advisor [--rows 6000] [--sets china,bike] [--keep advisor]
    python -m benchmarks.advisor --plot
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
import warnings
from dataclasses import replace
from typing import Any

import torch
from rich.console import Console

import apviz
from apviz import comparison
from apviz.advice.advising import advise
from apviz.solvers import Cholesky, attempt
from apviz.solvers.choosing.costs import CostModel
from benchmarks.machine import RESULTS, keep

SETS = ("airquality", "bike", "china", "earth", "keggundirected", "kin40k", "protein", "sgemm")
ROWS, SIDES, NOISES = (6_000, 14_000), (1, 16), (1.0, 0.01, 10.0)
AUTO = "Automatic"
#: epochs, and processor seconds of a solve
CAP, LIMIT = 400, 120.0

#: methods by the prefix of their names, the longest first, with colour and symbol
KINDS = (
    ("Overlapping projections", "#1F77D0", "circle"),
    ("CG + two-level Schwarz", "#A83600", "diamond"),
    ("CG + randomly pivoted Cholesky", "#6A4C93", "square"),
    ("CG", "#3A7D44", "triangle-up"),
)
#: prefixes of two kinds of methods in older results
KEPT = {"overlapping alternating projection": "Overlapping projections", "CG with": "CG +"}


def measure(name: str, n: int, sides: int, noise: float) -> dict[str, Any]:
    """Return the advice on a system, and the measured cost of each method."""
    data = apviz.datasets.load(name, n=min(n, 13_903) if name == "bike" else n)
    chosen = comparison.choose_hyperparameters(data)
    system = comparison.build_system(data, replace(chosen, noise=noise * chosen.noise), rhs=sides, operator="tiled")
    system.operator.prepare()
    brief, brief_seconds = _timed(system)
    advice, seconds = _timed(system, thorough=True)
    methods = {}
    usual = {name: each for name, each in brief.methods.items() if isinstance(each.solver, apviz.Automatic)}
    for method, each in {**advice.methods, **usual}.items():
        if isinstance(each.solver, Cholesky) or not each.is_bounded:
            continue
        solve_began = time.process_time()
        solution = attempt(system, each.solver, [apviz.StopHook(max_seconds=LIMIT)])
        methods[method] = {
            "forecast": {"seconds": each.seconds, "work": each.work, "chance": each.chance},
            "seconds": round(time.process_time() - solve_began, 3),
            "work": round(solution.work, 2),
            "reason": str(solution.stop_reason),
        }
    first = next(iter(advice.methods))
    tested = {name: each.seconds for name, each in brief.methods.items() if each.is_bounded}
    return {
        "set": name, "n": system.n, "right-hand sides": sides, "noise times": noise, "advised": first,
        "advice seconds": round(seconds, 3), "what would change": [each.sentence for each in advice.alternatives],
        "methods": methods,
        "brief": {"advised": next(iter(brief.methods)), "seconds": round(brief_seconds, 3), "forecasts": tested},
    }  # fmt: skip


def _timed(system: apviz.KernelSystem, **settings: Any) -> tuple[apviz.Advice, float]:
    """Return the advice, and its processor seconds with those of the cost model."""
    CostModel.forget()
    began = time.process_time()
    advice = advise(system, max_epochs=CAP, clock=time.process_time, **settings)
    return advice, time.process_time() - began


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the shares of correct forecasts, and the regret."""
    factors, works, regrets, whole, shares, missed, false_alarms, advised = [], [], [], [], [], 0, 0, 0
    for row in rows:
        tested = {name: each for name, each in row["methods"].items() if name != AUTO}
        converged = {name: each for name, each in tested.items() if each["reason"] == "converged"}
        for each in tested.values():
            hopeful = each["forecast"]["chance"] >= 0.5
            if each["reason"] == "converged":
                factors.append(math.exp(abs(math.log(each["forecast"]["seconds"][0] / each["seconds"]))))
                works.append(math.exp(abs(math.log(each["forecast"]["work"][0] / each["work"]))))
                false_alarms += not hopeful
            else:
                missed += hopeful
        if row["advised"] in converged:
            least = min(each["seconds"] for each in converged.values())
            took = converged[row["advised"]]["seconds"]
            advised += took <= least
            regrets.append(took / least)
            whole.append((took + row["advice seconds"]) / least)
            shares.append(row["advice seconds"] / least)
    return {
        "cells": len(factors),
        "seconds within 1.5": round(sum(each <= 1.5 for each in factors) / len(factors), 3),
        "seconds within 2": round(sum(each <= 2.0 for each in factors) / len(factors), 3),
        "work within 1.5": round(sum(each <= 1.5 for each in works) / len(works), 3),
        "work within 2": round(sum(each <= 2.0 for each in works) / len(works), 3),
        "said not to converge, and did": false_alarms,
        "said to converge, and did not": missed,
        "systems": len(rows),
        "the quickest was advised": advised,
        "regret, median": round(statistics.median(regrets), 3),
        "regret, 95%": round(statistics.quantiles(regrets, n=20)[-1], 3) if len(regrets) > 1 else None,
        "regret with the advice, median": round(statistics.median(whole), 3),
        "the advice's own share of the quickest, median": round(statistics.median(shares), 3),
        "brief": summary_of_brief([row for row in rows if "brief" in row]),
    }


def summary_of_brief(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what advice of default settings costs, and how good it is; "tested" is advice with a test or more."""
    shares, regrets, factors, usual, tested = [], [], [], [], 0
    for row in rows:
        brief, methods = row["brief"], row["methods"]
        took = {name: each["seconds"] for name, each in methods.items() if each["reason"] == "converged"}
        if not took:
            continue
        shares.append(brief["seconds"] / min(took.values()))
        if brief["advised"] in took:
            regrets.append(took[brief["advised"]] / min(took.values()))
        for name, (likely, low, high) in brief["forecasts"].items():
            if name not in took:
                continue
            if name == AUTO:
                usual.append(low <= took[name] <= high)
            else:
                factors.append(math.exp(abs(math.log(likely / took[name]))))
        tested += AUTO not in brief["forecasts"]
    if not shares:
        return {}
    return {
        "systems": len(shares),
        "its share of the quickest, median": round(statistics.median(shares), 3),
        "at most a tenth": sum(each <= 0.1 for each in shares),
        "tested": tested,
        "forecasts of tests": len(factors),
        "seconds within 1.5": sum(each <= 1.5 for each in factors),
        "seconds within 2": sum(each <= 2.0 for each in factors),
        "untested": len(usual),
        "seconds within their range": sum(usual),
        "regret, median": round(statistics.median(regrets), 3),
        "regret, 95%": round(statistics.quantiles(regrets, n=20)[-1], 3) if len(regrets) > 1 else None,
    }


def plot(rows: list[dict[str, Any]]) -> None:
    """Write `results/advisor.png`, with every converged solve; needs kaleido and a browser."""
    import plotly.graph_objects as go

    figure, ends = go.Figure(), [0.05, 100.0]
    for factor, shade in ((2.0, "rgba(31, 119, 208, 0.10)"), (1.5, "rgba(31, 119, 208, 0.16)")):
        edges = [each * factor for each in ends] + [each / factor for each in reversed(ends)]
        figure.add_scatter(
            x=ends + ends[::-1], y=edges, fill="toself", fillcolor=shade, line={"width": 0}, mode="lines",
            hoverinfo="skip", name=f"within a factor of {factor:g}",
        )  # fmt: skip
    figure.add_scatter(x=ends, y=ends, mode="lines", line={"color": "black", "width": 1}, name="as was said")
    for words, color, symbol in KINDS:
        for noise, look in ((None, symbol), (0.01, f"{symbol}-open")):
            cells = [
                (each["seconds"], each["forecast"]["seconds"][0])
                for row in rows if (row["noise times"] == 0.01) == (noise is not None)
                for name, each in row["methods"].items()
                if name != AUTO and words == _kind(name) and each["reason"] == "converged"
            ]  # fmt: skip
            figure.add_scatter(
                x=[took for took, _ in cells], y=[said for _, said in cells], mode="markers",
                marker={"size": 8, "color": color, "symbol": look, "line": {"width": 1.5, "color": color}},
                name=words + (", a hundredth of the noise" if noise else ""),
            )  # fmt: skip
    axis = {"type": "log", "range": [math.log10(each) for each in ends], "dtick": 1}
    figure.update_layout(
        template="plotly_white", title="Forecast and measured times of solves, processor seconds on one thread",
        xaxis={**axis, "title": "seconds that the solve took"}, legend={"x": 1.02, "y": 1},
        yaxis={**axis, "title": "seconds that were said before", "scaleanchor": "x"},
        margin={"l": 70, "t": 60, "b": 60, "r": 20},
    )  # fmt: skip
    figure.write_image(RESULTS / "advisor.png", width=1050, height=680, scale=1.5)


def _kind(name: str) -> str:
    """Return the method without its rank."""
    for before, now in KEPT.items():
        name = name.replace(before, now, 1)
    return next(words for words, _, _ in KINDS if name.startswith(words))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--keep", default="advisor", help="name of the results")
    parser.add_argument("--plot", action="store_true", help="only draw what is kept")
    asked = parser.parse_args()
    if asked.plot:
        plot(json.loads((RESULTS / "advisor.json").read_text())["results"]["rows"])
        return
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = []
    for name in asked.sets.split(","):
        for n in map(int, asked.rows.split(",")):
            for sides in SIDES:
                for noise in NOISES:
                    rows.append(measure(name, n, sides, noise))
                    Console(stderr=True).print(name, n, sides, noise, rows[-1]["advised"], highlight=False)
        keep(asked.keep, {"summary": summary(rows), "rows": rows})


if __name__ == "__main__":
    main()
