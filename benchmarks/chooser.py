"""Compare the seconds of `Automatic` with those of the best of all methods of apviz, Cholesky included.

All registered sets and systems made to mislead it, with 4,000 to 54,000 rows, to 0.1, 0.01 and 0.001, one right-hand
side, float32. Seconds are those of the processor on one thread, set-up and choosing included, the least of up to twelve
solves in about two seconds, in turns with the other methods, so that other processes on the machine matter little.
Every other method is stopped at 1.5 times the best so far; a factorisation cannot be stopped and is skipped above
16,000 rows. Results are written after each system. `--systems judging` measures systems on which nothing was tuned
(`judging.py`), `practice` others of the same kinds.

    python -m benchmarks.chooser [--systems tuning | judging | practice] [system ...]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

import apviz
from apviz import comparison
from apviz.solvers import attempt, overlapping
from apviz.solvers.recommended import coarse_rank
from benchmarks.judging import JUDGES, PRACTICE
from benchmarks.machine import RESULTS, keep

TOLERANCES = (0.1, 0.01, 0.001)
GOAL = 1.2
SMALL, MEDIUM, N, LARGE = 4_000, 8_000, 14_000, 50_000
CAP = 3_000  # epochs or iterations
REPEATS, ENOUGH_SECONDS, LEAST_SECONDS, FIRST_LIMIT = 12, 2.0, 0.2, 240.0
LIMIT = 1.5  # times the best
AUTO = "auto"
# 14,000 rows take about 20 s of one core
CHOLESKY, CHOLESKY_ROWS = "Cholesky", 16_000


def registered(name: str, n: int, noise: float = 1.0) -> apviz.KernelSystem:
    """Return a data set with a multiple of the noise of its card."""
    data = apviz.datasets.load(name, n=n)
    chosen = comparison.choose_hyperparameters(data)
    return comparison.build_system(data, replace(chosen, noise=noise * chosen.noise), rhs=1, operator="tiled")


def made(d: int, kernel: apviz.Kernel, noise: float, n: int = N) -> apviz.KernelSystem:
    """Return a smooth function of normal points, with noise."""
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(n, d, generator=generator), torch.randn(d, generator=generator)
    y = torch.sin(2 * x @ w / math.sqrt(d)) + math.sqrt(noise) * torch.randn(n, generator=generator)
    return apviz.KernelSystem(x, y, kernel, noise=noise, operator="tiled")


REGISTERED = ("china", "protein", "kin40k", "bike", "keggundirected", "airquality", "sgemm", "earth")
SYSTEMS: dict[str, Callable[[], apviz.KernelSystem]] = {
    f"{name}, n = {n:,}": lambda name=name, n=n: registered(name, n)  # type: ignore[misc]
    for n in (SMALL, MEDIUM)
    for name in REGISTERED
}
SYSTEMS |= {
    f"{name}, n = {n:,}": lambda d=d, kernel=kernel, noise=noise, n=n: made(d, kernel, noise, n)  # type: ignore[misc]
    for n in (SMALL, MEDIUM)
    for name, d, kernel, noise in (
        ("d = 10, lengthscale 4", 10, apviz.Matern52(lengthscale=4.0), 0.001),
        ("d = 20, lengthscale 8", 20, apviz.Matern52(lengthscale=8.0), 0.01),
        ("d = 20, lengthscale 20", 20, apviz.Matern52(lengthscale=20.0), 0.001),
        ("d = 385, lengthscale 20", 385, apviz.Matern32(lengthscale=20.0), 0.01),
        ("less nearly diagonal", 10, apviz.Matern52(lengthscale=1.0), 0.1),
    )
}
SYSTEMS |= {
    "china": lambda: registered("china", N),
    "protein": lambda: registered("protein", N),
    "kin40k": lambda: registered("kin40k", N),
    "bike": lambda: registered("bike", 13_903),
    "keggundirected": lambda: registered("keggundirected", N),
    "airquality": lambda: registered("airquality", N),
    "sgemm": lambda: registered("sgemm", N),
    "earth": lambda: registered("earth", N),
    "keggundirected, σ² × 0.1": lambda: registered("keggundirected", N, 0.1),
    "keggundirected, σ² × 0.3": lambda: registered("keggundirected", N, 0.3),
    "keggundirected, σ² × 0.1, n = 4,000": lambda: registered("keggundirected", 4_000, 0.1),
    "china, σ² × 20": lambda: registered("china", N, 20.0),
    "d = 20, lengthscale 8": lambda: made(20, apviz.Matern52(lengthscale=8.0), 0.01),
    "d = 20, lengthscale 20": lambda: made(20, apviz.Matern52(lengthscale=20.0), 0.001),
    "d = 30, lengthscale 10": lambda: made(30, apviz.Matern52(lengthscale=10.0), 0.01),
    "d = 20, RBF, lengthscale 8": lambda: made(20, apviz.RBF(lengthscale=8.0), 0.001),
    "nearly diagonal": lambda: made(10, apviz.Matern52(lengthscale=0.3), 0.1),
    "less nearly diagonal": lambda: made(10, apviz.Matern52(lengthscale=1.0), 0.1),
    "china, n = 54,000": lambda: registered("china", 54_000),
    "airquality, n = 50,000": lambda: registered("airquality", LARGE),
    "sgemm, n = 50,000": lambda: registered("sgemm", LARGE),
    "keggundirected, n = 50,886": lambda: registered("keggundirected", 50_886),
}
#: systems of up to 8,000 rows, of 50,000 and more, and of 14,000, each with a file of its own
PARTS = {
    "chooser_small": [name for name in SYSTEMS if name.endswith(f"n = {SMALL:,}") or name.endswith(f"n = {MEDIUM:,}")],
    "chooser_large": [name for name in SYSTEMS if "n = 5" in name],
}
PARTS["chooser"] = [name for name in SYSTEMS if not any(name in part for part in PARTS.values())]
SETS = {
    "tuning": PARTS,
    "judging": {"chooser_judging": [judge.name for judge in JUDGES]},
    "practice": {"chooser_practice": [one.name for one in PRACTICE]},
}
MADE = SYSTEMS | {judge.name: judge.system for judge in JUDGES + PRACTICE}


def methods(n: int, tol: float) -> dict[str, apviz.Solver]:
    def gradient(preconditioner: Any = None) -> apviz.ConjugateGradient:
        return apviz.ConjugateGradient(preconditioner=preconditioner, tol=tol, max_epochs=CAP)

    settings: dict[str, Any] = {"tol": tol, "max_epochs": CAP}
    return {
        AUTO: apviz.Automatic(**settings),
        "A": overlapping(**settings),
        "A, every column, alone": overlapping(columns=apviz.solvers.Exact(), fallback_rank=0, **settings),
        "B": gradient(apviz.TwoLevelSchwarz()),
        "CG": gradient(),
        "PCG 100": gradient(apviz.PivotedCholesky(rank=100)),
        "PCG 500": gradient(apviz.PivotedCholesky(rank=500)),
        "rPCG": gradient(apviz.RandomlyPivotedCholesky(rank=coarse_rank(n))),
        **({CHOLESKY: apviz.Cholesky(tol=tol)} if n <= CHOLESKY_ROWS else {}),
    }


def measure(system: apviz.KernelSystem, solver: apviz.Solver, limit: float) -> dict[str, Any]:
    """Solve once, for at most `limit` processor seconds."""
    began = time.process_time()
    ends = began + limit
    stop = apviz.StopHook(when=lambda _: "the limit" if time.process_time() > ends else None)
    solution = attempt(system, solver, [stop])
    seconds = round(time.process_time() - began, 4)
    return {"seconds": seconds, "work": round(solution.work, 2), "converged": solution.converged}


def repeat(system: apviz.KernelSystem, solvers: dict[str, apviz.Solver], cells: dict[str, dict[str, Any]]) -> None:
    """Repeat all solves that may be the fastest, in turns, and keep the least seconds of each.

    In turns, because the speed of a machine changes from minute to minute.
    """
    best = min(cell["seconds"] for cell in cells.values() if cell["converged"])
    near = [
        name for name, cell in cells.items()
        if cell["converged"] and (name == AUTO or cell["seconds"] <= LIMIT * best)
    ]  # fmt: skip
    spent = best
    for _ in range(REPEATS - 1):
        if spent > ENOUGH_SECONDS:
            return
        for name in near:
            again = measure(system, solvers[name], math.inf)
            if again["seconds"] < cells[name]["seconds"] and again["converged"]:
                cells[name] = again
        spent += best


def measure_all(name: str) -> list[dict[str, Any]]:
    """Measure every method on a system; return a row for each tolerance."""
    system, rows = MADE[name](), []
    system.operator.prepare()
    for product in (
        system.operator.matmul(system.b),
        system.operator.columns_matmul(slice(0, 100), system.b[:100]),
    ):
        del product  # caches are warm
    for tol in TOLERANCES:
        cells, best, solvers = dict[str, Any](), math.inf, methods(system.n, tol)
        for method, solver in solvers.items():
            limit = max(LIMIT * best, LEAST_SECONDS) if best < math.inf else FIRST_LIMIT
            before = rows[-1]["methods"][CHOLESKY] if rows and method == CHOLESKY else None
            if before is not None and before["seconds"] > limit:
                cells[method] = before  # the same factorisation, which again would lose
                continue
            cells[method] = measure(system, solver, limit)
            if cells[method]["converged"]:
                best = min(best, cells[method]["seconds"])
        if best == math.inf:
            print(f"{name}, {tol}: no method converged", flush=True)
            continue
        repeat(system, solvers, cells)
        best = min(cell["seconds"] for cell in cells.values() if cell["converged"])
        chosen = apviz.Automatic(tol=tol).prepare(system.operator, like=system.b).choices["method"]
        regret = round(cells[AUTO]["seconds"] / best, 2) if cells[AUTO]["converged"] else math.inf
        winner = min((one for one in cells if cells[one]["converged"]), key=lambda one: cells[one]["seconds"])
        rows.append({
            "system": name, "n": system.n, "tol": tol, "auto": chosen, "best": winner, "regret": regret,
            "methods": cells,
        })  # fmt: skip
        print(f"{name}, {tol}: regret {regret}, best {winner}, {best:.2f} s; {chosen[:90]}", flush=True)
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return regrets with and without Cholesky among the others."""
    with_cholesky = [row["regret"] for row in rows]
    without = []
    for row in rows:
        others = [cell["seconds"] for name, cell in row["methods"].items() if cell["converged"] and name != CHOLESKY]
        without.append(round(row["methods"][AUTO]["seconds"] / min(others), 2))

    def of(regrets: list[float]) -> dict[str, Any]:
        return {
            "median": statistics.median(regrets), "worst": max(regrets),
            f"above {GOAL}": sum(regret > GOAL for regret in regrets), "of": len(regrets),
        }  # fmt: skip

    return {"every method": of(with_cholesky), "without Cholesky": of(without), "goal": GOAL}


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a Markdown table that ranks `auto` and Cholesky, by numbers of training rows."""
    lines = [
        f"| rows | solves | Cholesky is fastest in | `auto` within {GOAL} of the best in | `auto` at worst | "
        "Cholesky at worst |",
        "|---|---|---|---|---|---|",
    ]
    for n in sorted({row["n"] for row in rows}):
        some = [row for row in rows if row["n"] == n]
        direct = [
            row["methods"][CHOLESKY]["seconds"] / row["methods"][row["best"]]["seconds"]
            for row in some if row["methods"][CHOLESKY]["converged"]
        ]  # fmt: skip
        fastest = sum(row["best"] == CHOLESKY for row in some)
        near = sum(row["regret"] <= GOAL for row in some)
        worst = max(row["regret"] for row in some)
        lines.append(f"| {n:,} | {len(some)} | {fastest} | {near} | {worst:.1f} times | {max(direct):.1f} times |")
    return lines


def judged(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a Markdown table with the regret of `auto`, by tolerances and for all."""
    lines = [f"| to | solves | `auto` within {GOAL} of the best in | median | at worst |", "|---|---|---|---|---|"]
    for tol in (*TOLERANCES, None):
        regrets = [row["regret"] for row in rows if tol in (None, row["tol"])]
        near = sum(regret <= GOAL for regret in regrets)
        share = f"{near}, {100 * near / len(regrets):.0f}%"
        middle, worst = statistics.median(regrets), max(regrets)
        lines.append(f"| {tol or 'all'} | {len(regrets)} | {share} | {middle:.2f} times | {worst:.1f} times |")
    return lines


def rows_kept(part: str) -> list[dict[str, Any]]:
    """Return the measured rows of a part, with Cholesky among the methods where it fits."""
    path = RESULTS / f"{part}.json"
    results = json.loads(path.read_text())["results"] if path.exists() else []
    rows = results["rows"] if isinstance(results, dict) else []
    return [row for row in rows if row["n"] > CHOLESKY_ROWS or CHOLESKY in row["methods"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--systems", choices=SETS, default="tuning")
    parser.add_argument("names", nargs="*", metavar="system")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for part, systems in SETS[asked.systems].items():
        rows = [row for row in rows_kept(part) if row["system"] not in asked.names] if asked.names else []
        for name in [name for name in asked.names or systems if name in systems]:
            rows += measure_all(name)
            keep(part, {"summary": summary(rows), "rows": rows}, show=False)
        if rows:
            print(part, summary(rows))


if __name__ == "__main__":
    main()
