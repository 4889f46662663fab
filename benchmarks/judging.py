"""Systems that judge `Automatic`, on which nothing was tuned.

Thirty systems whose settings and data are drawn with a fixed seed: six kinds of inputs, five kernels, 2,000 to 8,000
rows, 1 to 20 inputs, noise from 0.001 to 1 of the outputscale, short and long lengthscales, 1 or 16 right-hand sides.

Do not look at these systems, or at their results, while you adjust `Automatic` or its cost model: they would no longer
judge it. Anyone who has must change `SEED` and measure again. Systems of the same kinds to adjust to have another seed.

    python -m benchmarks.judging                      # lists them
    python -m benchmarks.chooser --systems judging    # measures
    python -m benchmarks.chooser --systems practice   # measures those to adjust to
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

import apviz

SEED, PRACTICE_SEED, COUNT = 41, 42, 30
ROWS, COLUMNS = (2_000, 8_000), (1, 2, 3, 4, 6, 9, 13, 20)
NOISE, LENGTHSCALES = (1e-3, 1.0), (0.1, 3.0)  # of the outputscale, of √d
ARD = 4.0  # a lengthscale is up to this many times longer or shorter than the typical one
SIDES = (1, 1, 16)
KERNELS = (apviz.Matern12, apviz.Matern32, apviz.Matern52, apviz.RBF, apviz.RationalQuadratic)
FEATURES = 1_000


def uniform(n: int, d: int, generator: Generator) -> Tensor:
    return math.sqrt(3) * (2 * torch.rand(n, d, generator=generator, dtype=torch.float64) - 1)


def normal(n: int, d: int, generator: Generator) -> Tensor:
    return torch.randn(n, d, generator=generator, dtype=torch.float64)


def clustered(n: int, d: int, generator: Generator) -> Tensor:
    """Twenty clusters, ten times narrower than their distances."""
    of = torch.randint(20, (n,), generator=generator)
    return normal(20, d, generator)[of] + 0.1 * normal(n, d, generator)


def gridded(n: int, d: int, generator: Generator) -> Tensor:
    """Points of a lattice with about 1.5ᵈ times as many points as rows, at least three a column."""
    levels = max(3, math.ceil(1.5 * n ** (1 / d)))
    return (uniform(n, d, generator) * levels / math.sqrt(12)).round() * math.sqrt(12) / levels


def heavy_tailed(n: int, d: int, generator: Generator) -> Tensor:
    """Student's t with two degrees of freedom, in each column."""
    chi = -2 * torch.rand(n, d, generator=generator, dtype=torch.float64).clamp_min(1e-12).log()
    return normal(n, d, generator) / (chi / 2).sqrt()


def correlated(n: int, d: int, generator: Generator) -> Tensor:
    """Mixtures of a third as many normal variables, with a tenth of their size added."""
    hidden = math.ceil(d / 3)
    mixed = normal(n, hidden, generator) @ normal(hidden, d, generator) / math.sqrt(hidden)
    return mixed + 0.1 * normal(n, d, generator)


def duplicated(n: int, d: int, generator: Generator) -> Tensor:
    """Normal points, each in about four rows."""
    return normal(n // 4, d, generator)[torch.randint(n // 4, (n,), generator=generator)]


INPUTS: tuple[Callable[[int, int, Generator], Tensor], ...] = (
    uniform, clustered, gridded, heavy_tailed, correlated, duplicated,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Judge:
    """A system to be judged on: its settings, from which `system` draws its data."""

    number: int
    seed: int
    inputs: Callable[[int, int, Generator], Tensor]
    n: int
    d: int
    kernel: apviz.Kernel
    typical: float
    ard: bool
    noise: float
    sides: int

    @property
    def name(self) -> str:
        lengthscale = f"lengthscale{'s around' if self.ard else ''} {self.typical:.2g}"
        sides = f"{self.sides} right-hand side{'s' if self.sides > 1 else ''}"
        inputs = self.inputs.__name__.replace("_", "-")
        kind = "judge" if self.seed == SEED else "practice"
        return (
            f"{kind} {self.number}: {inputs}, n = {self.n:,}, d = {self.d}, {self.kernel.title}, {lengthscale}, "
            f"noise {self.noise:.2g}, {sides}"
        )

    def system(self) -> apviz.KernelSystem:
        """Draw a function from the kernel, by random features, at the drawn inputs, and probe vectors of ±1."""
        generator = torch.Generator().manual_seed(1_000 * self.seed + self.number)
        x = self.inputs(self.n, self.d, generator)
        features = self.kernel.random_features(x, FEATURES, self.number)(x)
        y = features @ normal(features.shape[1], 1, generator) + math.sqrt(self.noise) * normal(self.n, 1, generator)
        probes = normal(self.n, self.sides - 1, generator).sign()
        b = torch.cat([y - y.mean(), probes], 1)
        return apviz.KernelSystem(x, b, self.kernel, noise=self.noise, operator="tiled", dtype=torch.float32)


def draw(number: int, seed: int = SEED) -> Judge:
    """Draw the settings of a system; kinds of inputs take turns, so that each has five systems."""
    rng = random.Random(1_000 * seed + number)

    def log_uniform(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    d, ard = rng.choice(COLUMNS), rng.random() < 0.5
    typical = math.sqrt(d) * log_uniform(*LENGTHSCALES)
    ard = ard and d > 1
    lengthscale = tuple(typical * log_uniform(1 / ARD, ARD) for _ in range(d)) if ard else typical
    return Judge(
        number=number, seed=seed, inputs=INPUTS[number % len(INPUTS)], n=round(log_uniform(*ROWS)), d=d,
        typical=typical, ard=ard,
        kernel=rng.choice(KERNELS)(lengthscale=lengthscale), noise=log_uniform(*NOISE), sides=rng.choice(SIDES),
    )  # fmt: skip


JUDGES = [draw(number) for number in range(1, COUNT + 1)]
PRACTICE = [draw(number, PRACTICE_SEED) for number in range(1, COUNT + 1)]

if __name__ == "__main__":
    print(*(judge.name for judge in JUDGES), sep="\n")
