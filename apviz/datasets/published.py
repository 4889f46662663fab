"""The published runs of the paper's authors: hyperparameters and residuals per Adam step."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from apviz.datasets.fetching import DatasetUnavailable, data_folder
from apviz.hyperparameters import Hyperparameters

FILE = "paper_runs.jsonl.gz"
PUBLISHED_NAMES = {"sgemm": "sgemmgpu"}


@dataclass(frozen=True)
class PublishedRun:
    """One Adam step of a published run (Wu et al., 2024): the hyperparameters after it, the residuals before it.

    Attributes:
        residual_trace: relative residual, averaged over 16 right-hand sides, after each epoch (altproj) or iteration
            (cg), at the hyperparameters of step − 1; the next record has those at the hyperparameters given here.
        method: altproj or cg.
    """

    kernel: str
    lengthscale: tuple[float, ...]
    outputscale: float
    noise: float
    mean: float
    residual_trace: tuple[float, ...]
    method: str
    seed: int
    step: int

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Return the values after the step, in scaled units."""
        return Hyperparameters(
            self.kernel, self.lengthscale, self.outputscale, self.noise, self.mean,
            f"Wu et al. (2024), published run {self.method}, seed {self.seed}, step {self.step}",
        )  # fmt: skip


def published_hyperparameters(
    name: str, *, kernel: str = "matern52", method: str = "altproj", seed: int = 0, step: int = 48
) -> PublishedRun:
    """Return the record of one published step, with the hyperparameters after it.

    Houseelectric was published for seed 3 only.

    Raises:
        DatasetUnavailable: the file of the published runs is not on this machine.
        ValueError: no such run or step; with the available ones.
    """
    steps = _steps(name, kernel, method, seed)
    if step not in steps:
        raise ValueError(f"step = {step}: this run of {name} has steps {min(steps)} to {max(steps)}")
    return _run(steps[step])


def published_training(
    name: str, *, kernel: str = "matern52", method: str = "altproj", seed: int = 0
) -> tuple[PublishedRun, ...]:
    """Return the records of all published steps of a training in order, from step 0.

    Raises:
        DatasetUnavailable, ValueError: as `published_hyperparameters`.
    """
    steps = _steps(name, kernel, method, seed)
    return tuple(_run(steps[step]) for step in sorted(steps))


def _steps(name: str, kernel: str, method: str, seed: int) -> dict[int, dict[str, Any]]:
    """Return the records of one run by step."""
    runs = _read(_path())
    wanted = (PUBLISHED_NAMES.get(name, name), kernel, method, seed)
    if wanted in runs:
        return runs[wanted]
    offered = sorted(f"kernel={k} method={m} seed={s}" for data, k, m, s in runs if data == wanted[0])
    own = {theirs: ours for ours, theirs in PUBLISHED_NAMES.items()}
    names = sorted({own.get(data, data) for data, *_ in runs})
    there = f"available for it: {'; '.join(offered)}" if offered else f"available data sets: {', '.join(names)}"
    raise ValueError(f"No published run for {name} kernel={kernel} method={method} seed={seed}; {there}")


def _run(record: dict[str, Any]) -> PublishedRun:
    return PublishedRun(
        kernel=record["kernel"], lengthscale=tuple(record["lengthscale"]), outputscale=record["outputscale"],
        noise=record["noise"], mean=record["mean"], residual_trace=tuple(record["residual_trace"]),
        method=record["method"], seed=record["seed"], step=record["step"],
    )  # fmt: skip


def _path() -> Path:
    folder = data_folder()
    if folder is None or not (folder / FILE).is_file():
        where = f"not in {folder}" if folder else "and APVIZ_DATA is not set"
        raise DatasetUnavailable(
            f"The published runs ({FILE}) are {where}. Put the file into the folder that APVIZ_DATA names; "
            "the hyperparameters of one step are also on the cards "
            "(apviz.datasets.card(name).hyperparameters)."
        )
    return folder / FILE


@lru_cache(maxsize=2)
def _read(path: Path) -> dict[tuple[str, str, str, int], dict[int, dict[str, Any]]]:
    runs: dict[tuple[str, str, str, int], dict[int, dict[str, Any]]] = {}
    with gzip.open(path, "rt") as lines:
        for line in lines:
            record = json.loads(line)
            key = (record["dataset"], record["kernel"], record["method"], record["seed"])
            runs.setdefault(key, {})[record["step"]] = record
    return runs
