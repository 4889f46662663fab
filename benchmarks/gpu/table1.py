"""Stage f: the paper's Table 1: one Adam step on sgemm and air quality, b = 6,000, 16 right-hand sides, AP against CG.

Solves go to tolerance 1 after at least 11 epochs, CG with pivoted Cholesky of rank 500. From raw parameters of zero,
where training begins, and from the published hyperparameters near its end, where solves are hard.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from apviz import datasets
from apviz.experiments.published import AP, CG
from apviz.experiments.sources import OVERLAP, Source, training_solver
from apviz.gp.training.settings import TrainingSettings
from apviz.gp.training.training import Training
from benchmarks.gpu.report import Cell, Report
from benchmarks.training import _Deadline

DATASETS, TINY_N = ("sgemm", "airquality"), 400
STARTS = ("from zero", "from the published step")
METHODS = (AP, CG, OVERLAP)
#: rows on which everything is compiled, and seconds of a step at most
WARM_UP_ROWS, LIMIT = 7_000, 40.0


@lru_cache(maxsize=1)
def source_of(dataset: str, n: int | None) -> Source:
    """Return the training rows in float64, as the paper's experiments have them."""
    data = datasets.load(dataset, n=n, dtype=torch.float64)
    return Source(data, "", datasets.train_size(data.card.n))


def run(report: Report) -> None:
    n = TINY_N if report.tiny else None
    for dataset in DATASETS:
        if not datasets.is_here(dataset):
            report.skip(dataset, f"{dataset} is not in APVIZ_DATA")
            continue
        for start in reversed(STARTS):
            for method in METHODS:
                report.measure(
                    f"{dataset} {start}: {method}",
                    lambda d=dataset, s=start, m=method: step(d, n, s, m, report), 5.0,
                )  # fmt: skip


def step(dataset: str, n: int | None, start: str, method: str, report: Report) -> Cell:
    """Return the seconds of one Adam step."""
    source = source_of(dataset, n)
    rows = min(source.n, TINY_N if report.tiny else WARM_UP_ROWS)
    train(source, rows, start, method, report.device, 5.0)
    if report.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    training, deadline = train(source, source.n, start, method, report.device, min(LIMIT, report.seconds_left() - 2))
    table = training.trace["step"]
    about: Cell = {
        "n": source.n,
        "d": int(source.data.train_x.shape[1]),
        "solver": training.settings.solver.method.name,
    }
    if not training.steps_done:
        return about | {"unfinished_s": deadline.unfinished, "reason": f"not done in {deadline.unfinished:.0f} s"}
    found = {name: float(table[name].to_numpy()[0]) for name in ("seconds", "epochs", "work")}
    converged = bool(table["converged"].to_numpy()[0])
    peak = torch.cuda.max_memory_allocated() / 2**30 if report.device == "cuda" else None
    text = f"{found['seconds']:.3g} s, {found['epochs']:.0f} epochs" + ("" if converged else ", NOT CONVERGED")
    return about | found | {"converged": converged, "peak_gib": peak, "summary": text}


def train(source: Source, rows: int, start: str, method: str, device: str, seconds: float) -> tuple[Training, Any]:
    """Take one step on the first rows."""
    data = source.data
    initial = data.card.hyperparameters if start == STARTS[1] else None
    settings = TrainingSettings(kernel="matern52", solver=training_solver(method, source), steps=1, probes=15)
    training = Training(
        data.train_x[:rows], data.train_y[:rows], settings, dtype=torch.float32, dataset=source.name, device=device,
        initial=initial,
    )  # fmt: skip
    deadline = _Deadline(seconds)
    training.run([deadline])
    return training, deadline
