"""Unconstrained parameters for an optimiser: mean, noise, and every number of any kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from apviz.gp.training.gradient import Gradient
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import Kernel

#: transform of positive numbers: `softplus` as in GPyTorch, `log` as in scikit-learn
Transform = Literal["softplus", "log"]

# Under L-BFGS and scoring a positive number may change by the factor RANGE. The noise stays above its floor by
# ABOVE_FLOOR times the floor, at least by LEAST_NOISE.
RANGE, ABOVE_FLOOR, LEAST_NOISE = 1e5, 1e-3, 1e-12

#: least and largest value
Range = tuple[float, float]


@dataclass(frozen=True)
class Constraints:
    """Constraints of a training: a few trained factors determine all numbers of the kernel.

    Number i of the kernel is nᵢ Πⱼ fⱼ^pᵢⱼ, where nᵢ is its value at the start and the factors fⱼ > 0 are trained.

    Args:
        names: names of the q factors.
        powers: pᵢⱼ, q for each number of the kernel; a number whose powers are all 0 is fixed.
        factors: least and largest value of each factor.
        noise: least and largest σ²; None: bounded by the noise floor alone.
    """

    names: tuple[str, ...]
    powers: tuple[tuple[int, ...], ...]
    factors: tuple[Range, ...]
    noise: Range | None = None

    def numbers(self, start: Kernel, factors: Sequence[float]) -> list[float]:
        """Return the numbers of the kernel at these factors, which are first clipped to their ranges."""
        within = [min(max(factor, low), high) for factor, (low, high) in zip(factors, self.factors, strict=True)]
        return [
            number * math.prod(factor**power for factor, power in zip(within, powers, strict=True))
            for number, powers in zip(start.numbers.values(), self.powers, strict=True)
        ]

    def factors_of(self, start: Kernel, numbers: Sequence[float]) -> list[float]:
        """Return the factors that reproduce these numbers of the kernel best (least squares of logarithms)."""
        ratios = [math.log(now / then) for now, then in zip(numbers, start.numbers.values(), strict=True)]
        powers = np.array(self.powers, dtype=np.float64).reshape(len(ratios), len(self.names))
        found: list[float] = np.exp(np.linalg.lstsq(powers, np.array(ratios), rcond=None)[0]).tolist()
        return found

    def noise_within(self, noise: float) -> float:
        """Return σ² clipped to its range."""
        return noise if self.noise is None else min(max(noise, self.noise[0]), self.noise[1])


@dataclass(frozen=True)
class Parametrisation:
    """A map between a raw vector and hyperparameters.

    The raw vector is (2 + p,) float64, in the order mean, noise, numbers of the kernel. A positive number is
    softplus(raw), as in GPyTorch, or exp(raw). The noise is its floor plus such a number. The mean and numbers of any
    sign are not transformed.

    Args:
        kernel: the kernel, with the values of fixed numbers.
        noise_floor: σ² stays above this.
        fixed: names of fixed hyperparameters. A number that must be positive but is 0 is fixed too.
        transform: transform of positive numbers.
        constraints: factors to train instead of the kernel's numbers, with ranges for them and for the noise.
    """

    kernel: Kernel
    noise_floor: float
    fixed: frozenset[str] = frozenset()
    transform: Transform = "softplus"
    constraints: Constraints | None = None

    #: indices of mean and noise in the raw vector
    MEAN: ClassVar[int] = 0
    NOISE: ClassVar[int] = 1

    @cached_property
    def _trained(self) -> list[bool]:
        """Whether each number of the kernel is trained."""
        kernel = self.kernel
        return [
            name.partition("[")[0] not in self.fixed and (number != 0 or name.partition("[")[0] in kernel.of_any_sign)
            for name, number in kernel.numbers.items()
        ]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the raw vector's entries."""
        if self.constraints is not None:
            return ("mean", "noise", *self.constraints.names)
        return (
            "mean",
            "noise",
            *(name for name, trained in zip(self.kernel.numbers, self._trained, strict=True) if trained),
        )

    @cached_property
    def positive(self) -> Tensor:
        """Whether each entry of the raw vector stands for a positive number: (2 + p,) bool."""
        free = self.kernel.of_any_sign
        return torch.tensor([False, True, *(name.partition("[")[0] not in free for name in self.names[2:])])

    def zeros(self) -> Tensor:
        """Return GPyTorch's initial raw vector: mean 0, all others softplus(0) = 0.693, the noise above its floor."""
        return torch.zeros(len(self.names), dtype=torch.float64)

    def hyperparameters(self, raw: Tensor, provenance: str = "") -> Hyperparameters:
        """Return the hyperparameters of a raw vector."""
        mean, noise, *trained = torch.where(self.positive, self._constrained(raw), raw).tolist()
        if self.constraints is not None:
            kernel = self.kernel.with_numbers(self.constraints.numbers(self.kernel, trained))
            return Hyperparameters.of(kernel, self.constraints.noise_within(noise + self.noise_floor), mean, provenance)
        left = iter(trained)
        numbers = [
            next(left) if is_trained else number
            for number, is_trained in zip(self.kernel.numbers.values(), self._trained, strict=True)
        ]
        kernel = self.kernel.with_numbers(numbers)
        return Hyperparameters.of(kernel, noise + self.noise_floor, mean, provenance)

    def raw(self, hyperparameters: Hyperparameters) -> Tensor:
        """Return the raw vector of hyperparameters. A single lengthscale is used for all inputs."""
        h, values = hyperparameters, dict[str, float]()
        if self.constraints is not None:
            factors = self.constraints.factors_of(self.kernel, list(h.build_kernel().numbers.values()))
            values = dict(zip(self.constraints.names, factors, strict=True))
            return self._raw(h, values)
        given = h.build_kernel().hyperparameters
        for name, own in self.kernel.hyperparameters.items():
            if name in self.fixed:
                continue
            if name not in given:
                raise ValueError(
                    f"the initial kernel has the hyperparameters {', '.join(given)}, but {name} is trained too"
                )
            start = given[name] if isinstance(given[name], tuple) else (given[name],)
            count = len(own) if isinstance(own, tuple) else 1
            assert isinstance(start, tuple)
            if len(start) not in (1, count):
                raise ValueError(f"the initial kernel has {len(start)} {name}s, but {count} are trained")
            several = start * (count if len(start) == 1 else 1)
            values |= {f"{name}[{k}]" if isinstance(own, tuple) else name: v for k, v in enumerate(several)}  # type: ignore[misc]
        return self._raw(h, values)

    def _raw(self, h: Hyperparameters, values: Mapping[str, float]) -> Tensor:
        if h.noise <= self.noise_floor:
            raise ValueError(f"the initial noise must be above noise_floor = {self.noise_floor:g}, got {h.noise:g}")
        numbers = [h.mean, h.noise - self.noise_floor, *(values[name] for name in self.names[2:])]
        constrained = torch.tensor(numbers, dtype=torch.float64)
        return torch.where(self.positive, self._unconstrained(constrained), constrained)

    def bounds(self, start: Tensor) -> list[tuple[float | None, float | None]]:
        """Return the least and largest value of each entry of the raw vector.

        Constraints set the bounds of their factors and of the noise. Other logarithms have scikit-learn's bounds, 1e-5
        and 1e5 around both 1 and the start, and the noise stays above its floor by a thousandth of it.
        """
        found: list[tuple[float | None, float | None]] = [(None, None)] * len(start)
        if self.transform == "log":
            for place, (value, positive) in enumerate(zip(start.tolist(), self.positive.tolist(), strict=True)):
                if positive:
                    found[place] = min(0.0, value) - math.log(RANGE), max(0.0, value) + math.log(RANGE)
            found[self.NOISE] = math.log(max(ABOVE_FLOOR * self.noise_floor, LEAST_NOISE)), found[self.NOISE][1]
        if self.constraints is not None:
            found[self.NOISE + 1 :] = map(self._raw_range, self.constraints.factors)
            if self.constraints.noise is not None:
                low, high = self.constraints.noise
                found[self.NOISE] = self._raw_range((low - self.noise_floor, high - self.noise_floor))
        return found

    def _raw_range(self, within: Range) -> Range:
        low, high = self._unconstrained(torch.tensor(within, dtype=torch.float64)).tolist()
        return low, high

    def chain(self, raw: Tensor, gradient: Gradient) -> Tensor:
        """Compute the gradient ∂ℓ/∂raw from ∂ℓ/∂θ, (2 + p,) float64."""
        by_number = torch.cat([gradient.kernel[name].double().cpu() for name in self.kernel.hyperparameters])
        outer = torch.tensor([gradient.mean, gradient.noise], dtype=torch.float64)
        slopes = torch.sigmoid(raw) if self.transform == "softplus" else raw.exp()
        slopes = torch.where(self.positive, slopes, 1.0)
        if self.constraints is None:
            return torch.cat([outer, by_number[torch.tensor(self._trained)]]) * slopes
        # the derivative of a product of powers in the logarithm of a factor is the power times the product
        factors = self._constrained(raw)[2:]
        numbers = torch.tensor(self.constraints.numbers(self.kernel, factors.tolist()), dtype=torch.float64)
        powers = torch.tensor(self.constraints.powers, dtype=torch.float64).reshape(len(numbers), len(factors))
        return torch.cat([outer, powers.T @ (by_number * numbers) / factors]) * slopes

    def _constrained(self, raw: Tensor) -> Tensor:
        return softplus(raw) if self.transform == "softplus" else raw.exp()

    def _unconstrained(self, positive: Tensor) -> Tensor:
        if self.transform == "log":
            return positive.log()
        return positive + torch.log(-torch.expm1(-positive))
