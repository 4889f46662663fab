"""A Gaussian process trained and tested as in the paper's tables: one data set, one method, one seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from apviz.experiments.base import Options, Row
from apviz.experiments.measuring.trained import steps_of, train
from apviz.experiments.setting.data import Source
from apviz.experiments.setting.methods import OVERLAP, TEST_TOL, lanczos_rank, prediction_solver, training_solver
from apviz.gp.metrics import negative_log_likelihood, rmse
from apviz.gp.posterior import Posterior
from apviz.gp.training import TrainingSettings
from apviz.kernels import KERNELS
from apviz.system import KernelSystem


def train_and_test(
    method: str, source: Source, kernel: str, noise_floor: float, seed: int, options: Options, path: Path
) -> Row:
    """Trains, and predicts the test rows: the mean by the method trained with, the variance by Lanczos.

    A training that was cut goes on from the checkpoint beside its trace at `path`.
    """
    settings = TrainingSettings(
        kernel, training_solver(method, source), steps_of(source.stands_in_for or source.name),
        noise_floor=noise_floor, seed=seed,
    )  # fmt: skip
    data = source.data
    like = KernelSystem(data.train_x, data.train_y, KERNELS[kernel](), 1.0, device=options.device)
    like.operator.prepare(1 + settings.probes)  # compiling is not part of a training's time
    training = train(source, settings, options, path)
    found, steps = training.hyperparameters, training.trace["step"]
    posterior = Posterior(
        data.train_x, data.train_y, found, prediction_solver(method, source), hooks=options.hooks,
        device=options.device, dataset=source.name,
    )  # fmt: skip
    rank = lanczos_rank(source)
    mean = posterior.mean(data.test_x)
    variance = posterior.variance(data.test_x, "lanczos", rank, noise=True)
    assert posterior.solution is not None  # no weights were given
    return {
        "method": method,
        "kernel": kernel,
        "noise_floor": noise_floor,
        "seed": seed,
        "dataset": source.name,
        "data": source.heading,
        "rmse": rmse(mean, data.test_y),
        "nll": negative_log_likelihood(mean, variance, data.test_y),
        "mean_converged": posterior.solution.converged,
        "epochs": int(steps["epochs"].sum()),
        "converged": training.trace.converged,
        "seconds": float(steps["seconds"].sum()),
        "work": float(steps["work"].sum()),
        "settings": settings.solver.label,
        "lanczos_rank": rank,
        "hyperparameters": dataclasses.asdict(found),
    }


def scaling(rows: Sequence[Row]) -> str:
    """The batch sizes and ranks of each data set, and how ours differs, in words."""
    by_set: dict[str, dict[str, None]] = {}
    overlapping = False
    for row in rows:
        if row["method"] == OVERLAP:
            overlapping = True
        else:
            by_set.setdefault(row["dataset"], {})[row["settings"]] = None
    words = [f"{name}: {', '.join(settings)}." for name, settings in by_set.items()]
    if overlapping:
        words.append(f"{OVERLAP}: ours, to {TEST_TOL:g} throughout, its sizes chosen from n and d.")
    return " ".join(words)


def variances(rows: Sequence[Row]) -> str:
    """What the variances behind the test NLL are, in words."""
    ranks = sorted({row["lanczos_rank"] for row in rows if "lanczos_rank" in row})
    own = "; SVGP has its own" if any("lanczos_rank" not in row for row in rows) else ""
    return f"Test NLL with Lanczos variances of rank {' and '.join(map(str, ranks))}{own}."
