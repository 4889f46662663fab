"""What an entrant gets, what it returns, and the data sets."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

import apviz
from apviz.hyperparameters import Hyperparameters
from benchmarks.leaderboard.cells import processor_seconds

Array = NDArray[np.float64]

#: test rows; rows that choose hyperparameters where the card of a data set has none
TEST_ROWS, FITTED_ROWS = 1_000, 1_000
#: rows and test rows of the warm-up
SMALL, SMALL_TEST = 100, 5
#: share of the budget after which an entrant should make its last prediction
SHARE = 0.8


class DoesNotApply(Exception):
    """The entrant cannot take this task; the message says why."""


@dataclass(frozen=True, eq=False)
class Task:
    """A regression problem.

    Args:
        x: (n, d) inputs, scaled by the data set; y: (n,) standardised targets, in random order.
        z: (t, d) test inputs.
        hyperparameters: those to use, or None: the entrant's own.
        seed: seed of the rows, and of the entrant's own draws.
    """

    x: Array
    y: Array
    z: Array
    hyperparameters: Hyperparameters | None
    seed: int = 0

    def small(self) -> Task:
        """Return a task of a few rows of the same kind, for a warm-up."""
        return replace(self, x=self.x[:SMALL], y=self.y[:SMALL], z=self.z[:SMALL_TEST])

    def need(self, *, most_inputs: int | None = None, track: str | None = None) -> None:
        """Raise `DoesNotApply` if the task has more inputs, or is of the other track."""
        if most_inputs is not None and self.x.shape[1] > most_inputs:
            raise DoesNotApply(f"takes up to {most_inputs} inputs, not {self.x.shape[1]}")
        if track is not None and (self.hyperparameters is None) is (track == "same"):
            raise DoesNotApply("has no hyperparameters of a kernel")


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions of f at t test inputs, and the variance of the noise of an observation.

    Args:
        mean, variance: (t,) of f.
        noise: σ².
    """

    mean: Array
    variance: Array
    noise: float


class Clock:
    """The processor seconds of a budget.

    Args:
        budget: seconds.
    """

    def __init__(self, budget: float) -> None:
        self.budget, self.has_cut = budget, False
        self._began, self._began_wall = processor_seconds(), time.perf_counter()

    def used(self) -> float:
        """Return the processor seconds since the start."""
        return processor_seconds() - self._began

    def wall(self) -> float:
        """Return the seconds since the start by a clock on the wall."""
        return time.perf_counter() - self._began_wall

    def is_up(self, share: float = SHARE) -> bool:
        """Test whether this share of the budget is used; the referee records whether it cut the entrant's work."""
        self.has_cut |= (is_up := self.used() >= share * self.budget)
        return is_up


class Entrant(Protocol):
    """A model of the referee."""

    def predict(self, task: Task, clock: Clock) -> Iterator[Prediction]:
        """Yield one prediction or several, each better than the one before.

        Raises:
            DoesNotApply: the entrant cannot take this task.
        """
        ...


@dataclass(frozen=True, eq=False)
class Judged:
    """A task of the track `same`, and the test targets, which no entrant sees."""

    task: Task
    targets: Array

    def of_track(self, track: str) -> Task:
        """Return the task with hyperparameters (`same`) or without (`own`)."""
        return self.task if track == "same" else replace(self.task, hyperparameters=None)


def registered(name: str) -> Callable[[int, int], Judged]:
    """Return a function of n and seed: a data set with the hyperparameters of its card."""

    def build(n: int, seed: int) -> Judged:
        least = apviz.datasets.train_size(apviz.datasets.card(name).n)
        data = apviz.datasets.load(name, n=min(n, least), seed=seed)
        rows = np.random.default_rng([47, seed]).permutation(len(data.test_y))[:TEST_ROWS]
        x, y, z, targets = (
            each.double().numpy() for each in (data.train_x, data.train_y, data.test_x[rows], data.test_y[rows])
        )
        h = data.card.hyperparameters or fitted(x, y)
        return Judged(Task(x, y, z, h, seed), targets)

    return build


def invented(draw: Callable[[np.random.Generator, int], tuple[Array, Array]]) -> Callable[[int, int], Judged]:
    """Return a function of n and seed: drawn inputs and observations, with hyperparameters of an exact fit."""

    def build(n: int, seed: int) -> Judged:
        x, y = draw(np.random.default_rng([47, seed]), n + TEST_ROWS)
        y = (y - y.mean()) / y.std()
        return Judged(Task(x[:n], y[:n], x[n:], fitted(x[:n], y[:n]), seed), y[n:])

    return build


def fitted(x: Array, y: Array) -> Hyperparameters:
    """Return the hyperparameters of an exact fit to the first rows."""
    gp = apviz.GaussianProcess(scale=False, device="cpu").fit(x[:FITTED_ROWS], y[:FITTED_ROWS])
    return gp.hyperparameters_


def spatial(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw a rough random function of two inputs, a sum of waves of all lengths, with noise."""
    x = rng.uniform(-1, 1, (n, 2))
    scales, angles, phases = 10 ** rng.uniform(-1.3, 0.5, 200), *rng.uniform(0, 2 * np.pi, (2, 200))
    waves = np.stack([np.cos(angles), np.sin(angles)]) / scales
    return x, np.sin(x @ waves + phases) @ scales**0.8 + 0.3 * rng.standard_normal(n)


def seasonal(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Draw ten years of a season that drifts, on a trend, at random times of [−1, 1], with noise."""
    t = rng.uniform(-1, 1, n)
    years = 5 * t
    y = 0.5 * years + (2 + np.sin(years)) * np.sin(2 * np.pi * years + 0.3 * years) + 0.5 * rng.standard_normal(n)
    return t[:, None], y


DATA: dict[str, Callable[[int, int], Judged]] = {
    **{
        name: registered(name)
        for name in (
            "diabetes", "bike", "protein", "kin40k", "keggundirected", "sgemm", "airquality", "china", "earth",
        )
    },
    "spatial": invented(spatial),
    "seasonal": invented(seasonal),
}  # fmt: skip


@functools.lru_cache(maxsize=1)
def built(data: str, n: int, seed: int) -> Judged:
    """Build a problem, and cache it for the next entrants."""
    return DATA[data](n, seed)
