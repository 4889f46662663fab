"""Training by every way there is, on sgemm and air quality at n = 8,000: what is found, and how long it takes.

50 Adam steps of 0.1 on 15 probes from raw parameters of zero, Matérn-5/2, σ² ≥ 1e-4, as in the paper:

- by Cholesky in float64, the reference of the others: with the same probes, at tolerance 0.01, the noise must
  come within 10%, the log likelihood within 0.01 nat a row, the test RMSE within 1%. Both are computed exactly, by a
  dense Cholesky factor in float64, at what each training found;
- by the paper's alternating projection at 0.01, and as in the paper at 1 after at least 11 epochs: the gap is reported.
  As many batches as the paper has: its 6,000 rows in their ratio to n are 248 of sgemm's and 157 of air quality's;
- by overlapping alternating projection at 0.01, cold and warm. Warm, every solve starts from the last step's weights,
  for which the probes stay those of the first step: not the reference's;
- with less work, overlapping too: solves of one epoch a step, which end where they are (`max_epochs`); probes that are
  samples of the prior (`estimator="pathwise"`), cold and, as they were published, warm; and with the first 60 of 70
  steps on a quarter and a half of the rows (`stages`), where overlap is 0.5. These are compared with overlapping
  alternating projection at 0.01: a fifth of its work, a likelihood no more than 0.005 nat a row below, an RMSE no more
  than 1% above;
- by GPyTorch's own CG, tolerance 1 after at least 11 iterations, with its dense and its KeOps kernel, pivoted Cholesky
  of rank 100. Nothing but what training needs: no value of log det K, and no more iterations for it.

GPyTorch's after 10 minutes and the paper's to 0.01 after an hour are stopped, or each after `--limit` seconds;
the time of the whole is then reckoned, the steps that are left at the price of the last, and nothing is judged.

All in float32 but the reference, from the same float64 data. Compiling is not part of any time. Work is kernel entries
evaluated or read ÷ n²; of GPyTorch the products of CG, the preconditioner's columns and 1.0 a step for the gradient.
Peak memory is what the training took beyond the data.

One process a cell; a cell that is in `results/training.json` is not run again, so an interrupted run resumes.

    python -m benchmarks.training [--n 8000] [--only WORD] [--limit SECONDS] [--results PATH] [sgemm|airquality ...]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table

import apviz
from apviz import datasets
from apviz.experiments.sources import (
    MAX_TRAINING_EPOCHS,
    MIN_TRAINING_EPOCHS,
    OURS,
    TEST_ROWS,
    TEST_TOL,
    TRAINING_TOL,
    Source,
    block_size,
)
from apviz.gp.metrics import rmse
from apviz.gp.training.likelihood import estimated_marginal_likelihood
from apviz.gp.training.settings import TrainingSettings
from apviz.gp.training.training import Training
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import KERNELS
from apviz.partitions import PrincipalAxisTree
from apviz.preconditioners import Whitening
from apviz.preconditioners.randomly_pivoted_cholesky import randomly_pivoted_cholesky
from apviz.system import KernelSystem
from benchmarks.gpytorch_training import RANK, GPyTorchTraining
from benchmarks.machine import RESULTS, describe
from benchmarks.solvers import peak_kib

PATH = RESULTS / "training.json"
DATASETS, N = ("sgemm", "airquality"), 8_000
KERNEL, STEPS, STEP_SIZE, PROBES, NOISE_FLOOR = "matern52", 50, 0.1, 15, 1e-4
REFERENCE, OVERLAPPING, WARM = "Cholesky, float64", "AP overlapping, to 0.01", "AP overlapping, to 0.01, warm"
PAPER_CLOSE, PAPER_LOOSE = "AP, the paper's, to 0.01", "AP, the paper's, to 1"
GPYTORCH = {"GPyTorch's CG, to 1, dense kernel": "dense", "GPyTorch's CG, to 1, KeOps kernel": "keops"}
#: overlapping with less work: settings besides kernel, steps and probes
LESS: dict[str, dict[str, Any]] = {
    "AP overlapping, one epoch a step": {"max_epochs": 1},
    "AP overlapping, pathwise, to 0.01": {"estimator": "pathwise"},
    "AP overlapping, pathwise, one epoch a step": {"estimator": "pathwise", "max_epochs": 1},
    "AP overlapping, pathwise, one epoch a step, warm": {
        "estimator": "pathwise", "max_epochs": 1, "warm_start": True,
    },
    "AP overlapping, one epoch a step, stages": {"max_epochs": 1, "stages": True},
    "AP overlapping, pathwise, one epoch a step, stages": {"estimator": "pathwise", "max_epochs": 1, "stages": True},
}  # fmt: skip
#: of the rows and of `STEPS` steps, and of the steps on all rows after them
STAGES, LAST_STEPS, STAGE_OVERLAP = ((0.25, 0.8), (0.5, 0.4)), 0.2, 0.5
# what takes longest comes last
METHODS = (REFERENCE, OVERLAPPING, WARM, *LESS, PAPER_LOOSE, *GPYTORCH, PAPER_CLOSE)
#: of less work, against overlapping at 0.01: times its work, nats a row below, and of the test RMSE above
LESS_GOALS = {"work": 5.0, "log likelihood": 0.005, "test RMSE": 0.01}
#: rows beyond which the likelihood is estimated with 15 probes, and the columns that whiten them
EXACT_ROWS, WHITENING_RANK = 16_000, 500
#: at tolerance 0.01, against Cholesky: ratios of noise and of test RMSE to 1, nats a row
GOALS = {"noise": 0.1, "log likelihood": 0.01, "test RMSE": 0.01}
#: rows on which GPyTorch takes a step before it is timed, to compile
WARM_UP_ROWS = 1_000
#: seconds after which a training is stopped
LIMITS = {PAPER_CLOSE: 3_600.0} | dict.fromkeys(GPYTORCH, 600.0)
#: of a solve of the paper's to 0.01: the paper's 1,000 would end some of them first
MOST_EPOCHS = 10_000

Cell = dict[str, Any]


def load(dataset: str, n: int) -> Source:
    """n training rows and up to 10,000 test rows, in float64."""
    data = datasets.load(dataset, n=n, dtype=torch.float64).with_test_rows(TEST_ROWS)
    return Source(data, "", datasets.train_size(data.card.n))


def measure(dataset: str, n: int, method: str, steps: int = STEPS, limit: float | None = None) -> Cell:
    """One cell, in a process of its own; a limit is for the trainings that have one."""
    limit = LIMITS.get(method, math.inf) if limit is None or method not in LIMITS else limit
    source = load(dataset, n)
    train = by_gpytorch if method in GPYTORCH else by_apviz
    found, unfinished, cell = train(source, method, steps, limit)
    steps = settings_of(method, source, steps).steps if method in LESS else steps
    cell |= {"asked": steps, "hyperparameters": dataclasses.asdict(found)}
    done = cell["by step"]["seconds"]
    if len(done) < steps:
        # σ² keeps falling, and later steps seldom need less
        cell["reckoned seconds"] = sum(done) + (steps - len(done)) * max([unfinished, *done[-1:]])
    if cell["steps"] == steps:
        if source.n <= EXACT_ROWS:
            likelihood, error = exact(source.data, found)
        else:
            likelihood, error, cell["likelihood's standard error"] = estimated(source.data, found)
        cell |= {"log likelihood": likelihood, "test RMSE": error}
    return cell


def exact(data: datasets.Dataset, h: Hyperparameters) -> tuple[float, float]:
    """Log marginal likelihood in nats a training row, and test RMSE, by a Cholesky factor of K in float64."""
    x, r, kernel = data.train_x.double(), data.train_y.double() - h.mean, h.build_kernel()
    k = kernel(x)
    k.diagonal().fill_(h.outputscale + h.noise)
    factor = torch.linalg.cholesky(k)
    del k
    w = torch.cholesky_solve(r[:, None], factor)
    log_det = 2.0 * factor.diagonal().log().sum()
    likelihood = -0.5 * (float(r @ w[:, 0]) + float(log_det) + len(r) * math.log(2 * math.pi))
    mean = torch.cat([kernel(rows, x) @ w for rows in torch.split(data.test_x.double(), 1_000)])[:, 0] + h.mean
    return likelihood / len(r), rmse(mean, data.test_y)


def estimated(data: datasets.Dataset, h: Hyperparameters) -> tuple[float, float, float]:
    """As `exact`, by solves to 0.001 and Lanczos in float32; and the standard error of the likelihood."""
    system = KernelSystem(
        data.train_x, data.train_y.double() - h.mean, h.build_kernel(), noise=h.noise, dtype=torch.float32
    )
    solver = apviz.Automatic(tol=1e-3)
    factor = randomly_pivoted_cholesky(system.operator, WHITENING_RANK, seed=0)
    whitening = Whitening(factor, system.operator.noise_of())
    found = estimated_marginal_likelihood(system, solver, PROBES, seed=0, with_gradient=False, whitening=whitening)
    posterior = apviz.Posterior(data.train_x, data.train_y, h, solver, dtype=torch.float32)
    n = len(data.train_x)
    return found.value / n, rmse(posterior.mean(data.test_x), data.test_y), found.standard_error / n


# --- the trainings ----------------------------------------------------------------------------------------------------


def solver_of(method: str, source: Source) -> apviz.solvers.Solver:
    if method == REFERENCE:
        return apviz.Cholesky()
    if method in (OVERLAPPING, WARM, *LESS):
        return OURS
    tol, most, least = (TEST_TOL, MOST_EPOCHS, 0)
    if method == PAPER_LOOSE:
        tol, most, least = TRAINING_TOL, MAX_TRAINING_EPOCHS, MIN_TRAINING_EPOCHS
    return apviz.AlternatingProjection(block_size=block_size(source), tol=tol, max_epochs=most, min_epochs=least)


def settings_of(method: str, source: Source, steps: int) -> TrainingSettings:
    """The settings of a training by apviz; of one in stages `steps` are those of the others."""
    less = dict(LESS.get(method, {}))
    settings = {
        "kernel": KERNEL, "solver": solver_of(method, source), "steps": steps, "step_size": STEP_SIZE,
        "probes": PROBES, "noise_floor": NOISE_FLOOR, "warm_start": method == WARM,
    } | less  # fmt: skip
    if less.get("stages"):
        stages = tuple((share, max(1, round(part * steps))) for share, part in STAGES)
        total = sum(count for _, count in stages) + max(1, round(LAST_STEPS * steps))
        settings |= {
            "solver": dataclasses.replace(OURS, partition=PrincipalAxisTree(overlap=STAGE_OVERLAP)),
            "stages": stages,
            "steps": total,
        }
    return TrainingSettings(**settings)


class _Deadline(apviz.Hook):
    """Hook that ends a training after a number of seconds, inside a step.

    Attributes:
        unfinished: seconds spent on that step.
    """

    def __init__(self, seconds: float) -> None:
        self.end = time.perf_counter() + seconds
        self.unfinished = 0.0

    def on_start(self, run: Any) -> None:
        self._run, self._started = run, time.perf_counter()

    def on_update(self, update: Any) -> None:
        if time.perf_counter() > self.end:
            self.unfinished = time.perf_counter() - self._started
            self._run.request_stop("the limit came first")


def by_apviz(source: Source, method: str, steps: int, limit: float) -> tuple[Hyperparameters, float, Cell]:
    """What was found, seconds spent on a step that the limit ended, and the cell."""
    data = source.data
    dtype = torch.float64 if method == REFERENCE else torch.float32
    settings = settings_of(method, source, steps)
    like = KernelSystem(data.train_x, data.train_y, KERNELS[KERNEL](), noise=1.0, dtype=dtype)
    like.operator.prepare(1 + PROBES)
    training = Training(data.train_x, data.train_y, settings, dtype=dtype, dataset=source.name)
    before = peak_kib(reset=True)
    deadline = _Deadline(limit)
    found = training.run([deadline] if math.isfinite(limit) else [])
    peak = peak_kib() - before
    step = training.trace["step"]
    return found, deadline.unfinished, {
        "label": settings.solver.method.name, "n": source.n, "d": int(data.train_x.shape[1]),
        "steps": training.steps_done,
        "seconds": float(step["seconds"].sum()), "epochs": int(step["epochs"].sum()), "work": float(step["work"].sum()),
        "unconverged steps": int((~step["converged"].to_numpy().astype(bool)).sum()), "peak MB": round(peak / 1024),
        "by step": {
            "seconds": step["seconds"].to_numpy().round(3).tolist(), "epochs": step["epochs"].to_numpy().tolist(),
            "noise": [float(f"{noise:.6g}") for noise in step["noise"].to_numpy()],
        },
    }  # fmt: skip


def by_gpytorch(source: Source, method: str, steps: int, limit: float) -> tuple[Hyperparameters, float, Cell]:
    """As `by_apviz`."""
    from apviz.gpytorch import hyperparameters

    x, y = source.data.train_x.float(), source.data.train_y.float()
    some = min(len(x), WARM_UP_ROWS)
    same: dict[str, Any] = {
        "kind": GPYTORCH[method], "step_size": STEP_SIZE, "probes": PROBES, "noise_floor": NOISE_FLOOR,
    }  # fmt: skip
    GPyTorchTraining(x[:some], y[:some], **same).run(1, math.inf)
    training = GPyTorchTraining(x, y, **same)
    before = peak_kib(reset=True)
    training.run(steps, limit)
    peak, done = peak_kib() - before, training.seconds
    return hyperparameters(training.model), training.unfinished, {
        "label": f"GPyTorch CG rank={RANK}", "n": source.n, "d": int(x.shape[1]), "steps": len(done),
        "seconds": sum(done), "epochs": sum(training.iterations), "work": training.work,
        "unconverged steps": sum(training.unconverged), "peak MB": round(peak / 1024),
        "by step": {
            "seconds": [round(one, 3) for one in done], "epochs": training.iterations, "noise": training.noises,
        },
    }  # fmt: skip


# --- what it comes to -------------------------------------------------------------------------------------------------


def compare(cells: dict[str, Cell]) -> list[dict[str, Any]]:
    """Every training that was finished against the reference; at 0.01 with the goals."""
    reference = cells.get(REFERENCE)
    rows: list[dict[str, Any]] = []
    for method, cell in cells.items():
        if reference is None or method == REFERENCE or "test RMSE" not in cell:
            continue
        gaps = {
            "noise": cell["hyperparameters"]["noise"] / reference["hyperparameters"]["noise"] - 1,
            "log likelihood": cell["log likelihood"] - reference["log likelihood"],
            "test RMSE": cell["test RMSE"] / reference["test RMSE"] - 1,
        }
        row: dict[str, Any] = {"method": method, "gaps": {name: round(gap, 6) for name, gap in gaps.items()}}
        if method in (PAPER_CLOSE, OVERLAPPING, WARM):
            row["goals"] = {name: "reached" if abs(gaps[name]) <= most else "missed" for name, most in GOALS.items()}
        rows.append(row)
    return rows


def less_work(cells: dict[str, Cell]) -> list[dict[str, Any]]:
    """Trainings with less work against overlapping at 0.01, with their goals."""
    ours = cells.get(OVERLAPPING, {})
    rows: list[dict[str, Any]] = []
    for method in LESS:
        cell = cells.get(method, {})
        if "test RMSE" not in ours or "test RMSE" not in cell:
            continue
        found = {
            "work": ours["work"] / cell["work"],
            "log likelihood": cell["log likelihood"] - ours["log likelihood"],
            "test RMSE": cell["test RMSE"] / ours["test RMSE"] - 1,
        }
        reached = {
            "work": found["work"] >= LESS_GOALS["work"],
            "log likelihood": found["log likelihood"] >= -LESS_GOALS["log likelihood"],
            "test RMSE": found["test RMSE"] <= LESS_GOALS["test RMSE"],
        }
        rows.append({
            "method": method, "against overlapping": {name: round(value, 4) for name, value in found.items()},
            "goals": {name: "reached" if one else "missed" for name, one in reached.items()},
        })  # fmt: skip
    return rows


def whole(cell: Cell) -> float:
    """Seconds of the whole training, measured or reckoned."""
    return float(cell["reckoned seconds"] if "reckoned seconds" in cell else cell["seconds"])


def speed(cells: dict[str, Cell]) -> dict[str, Any]:
    """Times of the others over overlapping alternating projection's, and what a warm start saves of it."""
    ours = cells.get(OVERLAPPING)
    if ours is None:
        return {}
    found: dict[str, Any] = {
        f"{method}: seconds ÷ ours" + (", reckoned" if "reckoned seconds" in cell else ""):
            round(whole(cell) / ours["seconds"], 2)
        for method, cell in cells.items() if method not in (OVERLAPPING, WARM)
    }  # fmt: skip
    if WARM in cells:
        found["saved by a warm start"] = {
            what: round(1 - cells[WARM][what] / ours[what], 4) for what in ("seconds", "epochs", "work")
        }
    return found


def table(name: str, one: dict[str, Any]) -> Table:
    """All cells of a data set; differences from the reference in brackets, goals marked."""
    steps = max(cell["asked"] for cell in one["cells"].values())
    title = f"{name}, d = {one['d']}: {steps} Adam steps; goals at 0.01: " + ", ".join(
        f"{what} within {most:g}" for what, most in GOALS.items()
    )
    out = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("training", "seconds", "a step", "epochs", "work", "peak MB", *GOALS, "goals"):
        out.add_column(heading, justify="left" if heading in ("training", "goals") else "right")
    against = {row["method"]: row for row in one["comparison"]}
    goals = against | {row["method"]: row for row in one.get("less work", [])}
    for method in [method for method in METHODS if method in one["cells"]]:
        cell, row = one["cells"][method], against.get(method)
        cut = cell["steps"] < cell["asked"]
        seconds = f"{whole(cell):.0f} reckoned" if cut else f"{cell['seconds']:.1f}"
        size = re.search(r"b ?= ?([\d,]+)", cell["label"])
        label = method + (f", b={size[1]}" if size and method in (PAPER_CLOSE, PAPER_LOOSE) else "")
        label += f", {cell['steps']} of {cell['asked']} steps" if cut else ""
        if cell["unconverged steps"]:
            label += f", {cell['unconverged steps']} steps not converged"
        values = [label, seconds, f"{cell['seconds'] / max(1, cell['steps']):.2f}", f"{cell['epochs']:,}"]
        values += [f"{cell['work']:,.0f}", f"{cell['peak MB']:,}", *_shown(cell, row)]
        out.add_row(*values, _judged(goals.get(method, {})))
    return out


def _judged(row: dict[str, Any]) -> str:
    """`reached`, or which goals were missed."""
    missed = [what for what, mark in row.get("goals", {}).items() if mark == "missed"]
    return f"missed: {', '.join(missed)}" if missed else "reached" if "goals" in row else ""


def _shown(cell: Cell, row: dict[str, Any] | None) -> list[str]:
    """Noise, log likelihood and test RMSE, and in brackets how far from the reference; nothing of a cut training."""
    if "test RMSE" not in cell:
        return ["–"] * len(GOALS)
    values = [f"{cell['hyperparameters']['noise']:.5f}", f"{cell['log likelihood']:.4f}", f"{cell['test RMSE']:.5f}"]
    if row is None:
        return values
    gaps = row["gaps"]
    signed = [f"{gaps['noise']:+.2%}", f"{gaps['log likelihood']:+.4f}", f"{gaps['test RMSE']:+.2%}"]
    return [f"{value} ({gap})" for value, gap in zip(values, signed, strict=True)]


def run(dataset: str, n: int, limit: float | None, wanted: list[str], path: Path, steps: int = STEPS) -> None:
    """The cells of a data set that are not there yet, and the comparison of all that are."""
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    name = f"{dataset}, n = {n:,}"
    one = kept.setdefault(name, {"dataset": dataset, "n": n, "cells": {}})
    for method in METHODS:
        if method in one["cells"] or (wanted and not any(word in method for word in wanted)):
            continue
        command = [sys.executable, "-m", "benchmarks.training", "--cell", method, dataset, "--n", str(n)]
        command += ["--steps", str(steps), *([] if limit is None else ["--limit", str(limit)])]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{name}, {method}: failed\n{done.stderr[-2000:]}", flush=True)
            continue
        cell = json.loads(done.stdout.strip().splitlines()[-1])
        one["d"] = cell["d"]
        one["cells"][method] = cell | {"machine": describe()}
        one |= {
            "comparison": compare(one["cells"]), "less work": less_work(one["cells"]), "speed": speed(one["cells"])
        }  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(kept, indent=1) + "\n")
        print(f"{name}, {method}: {cell['steps']} steps in {cell['seconds']:.1f} s", flush=True)
    if one["cells"]:
        console = Console(width=200)
        console.print(table(name, one))
        for row in one.get("less work", []):
            console.print(f"{row['method']}: {row['against overlapping']}", highlight=False)
        for what, value in one["speed"].items():
            console.print(f"{what}: {value}", highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*")
    parser.add_argument("--n", type=int, default=N, help="training rows")
    parser.add_argument("--only", action="append", default=[], help="trainings whose name holds this")
    parser.add_argument("--limit", type=float, help="seconds of GPyTorch's trainings, and of the paper's to 0.01")
    parser.add_argument("--results", type=Path, default=PATH)
    parser.add_argument("--steps", type=int, default=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.cell:
        print(json.dumps(measure(a.datasets[0], a.n, a.cell, a.steps, a.limit)))
        return
    for dataset in a.datasets or DATASETS:
        run(dataset, a.n, a.limit, a.only, a.results, a.steps)


if __name__ == "__main__":
    main()
