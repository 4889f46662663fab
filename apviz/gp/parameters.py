"""Unconstrained parameters: what Adam moves, and the hyperparameters they stand for, as in GPyTorch.

Lengthscales and outputscale are softplus(raw), the noise is softplus(raw) + floor, the mean is raw itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from apviz.gp.gradient import Gradient
from apviz.hyperparameters import Hyperparameters


@dataclass(frozen=True)
class Parametrisation:
    """Raw vectors θ: (3 + lengthscales,) float64, in the order mean, noise, outputscale, lengthscales.

    Args:
        kernel: the kernel's name.
        lengthscales: 1, or d of them (ARD).
        noise_floor: σ² stays above this.
    """

    kernel: str
    lengthscales: int
    noise_floor: float

    def zeros(self) -> Tensor:
        """Where GPyTorch starts: mean 0, all others softplus(0) = 0.693, the noise above its floor."""
        return torch.zeros(3 + self.lengthscales, dtype=torch.float64)

    def hyperparameters(self, raw: Tensor, provenance: str = "") -> Hyperparameters:
        mean, noise, outputscale, *lengthscale = [float(raw[0]), *softplus(raw[1:]).tolist()]
        return Hyperparameters(self.kernel, tuple(lengthscale), outputscale, noise + self.noise_floor, mean, provenance)

    def raw(self, hyperparameters: Hyperparameters) -> Tensor:
        """The inverse of `hyperparameters`; one lengthscale stands for d equal ones.

        Raises:
            ValueError: another number of lengthscales, or a noise that is not above the floor.
        """
        h = hyperparameters
        given = len(h.lengthscale)
        if given not in (1, self.lengthscales):
            raise ValueError(f"{given} lengthscales were given to start from, {self.lengthscales} are trained")
        if h.noise <= self.noise_floor:
            raise ValueError(f"the noise to start from is {h.noise:g}, not above noise_floor = {self.noise_floor:g}")
        lengthscale = h.lengthscale * (self.lengthscales if given == 1 else 1)
        positive = torch.tensor([h.noise - self.noise_floor, h.outputscale, *lengthscale], dtype=torch.float64)
        inverse = positive + torch.log(-torch.expm1(-positive))
        return torch.cat([torch.tensor([h.mean], dtype=torch.float64), inverse])

    def chain(self, raw: Tensor, gradient: Gradient) -> Tensor:
        """∂ℓ/∂raw from ∂ℓ/∂θ."""
        outer = torch.tensor([gradient.mean, gradient.noise, gradient.outputscale], dtype=torch.float64)
        slopes = torch.cat([torch.ones(1, dtype=torch.float64), torch.sigmoid(raw[1:])])
        return torch.cat([outer, gradient.lengthscale.double()]) * slopes
