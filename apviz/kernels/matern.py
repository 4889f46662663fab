"""Matérn-1/2, 3/2 and 5/2, and RBF, their limit."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from apviz.kernels.functions import SquaredExponential, mixture_frequencies
from apviz.kernels.stationary import KERNELS, Stationary


@KERNELS.register("matern12")
class Matern12(Stationary):
    """Matérn-1/2 (exponential): exp(−r), r = ‖(x−z)/ℓ‖. Continuous functions, nowhere smooth.

    Args:
        lengthscale, outputscale: as of `Stationary`.

    Examples:
        >>> import torch, apviz
        >>> x = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
        >>> apviz.Matern12(lengthscale=2.0)(x)  # exp(−1)
        tensor([[1.0000, 0.3679],
                [0.3679, 1.0000]], dtype=torch.float64)
    """

    title = "Matérn-1/2"
    form = "matern12"
    gpytorch = ("MaternKernel", {"nu": 0.5})
    distance_scale = 1.0
    has_kink = True

    def correlation_(self, u: Tensor, spare: Tensor) -> Tensor:
        return u.sqrt_().neg_().exp_()

    def slope(self, u: Tensor) -> Tensor:
        r = u.sqrt()
        return torch.where(r > 0, -0.5 * (-r).exp() / r, 0.0)

    def frequencies(self, width: int, count: int, generator: Generator) -> Tensor:
        return _student_frequencies(1, width, count, generator)

    def density(self, w: NDArray[np.float64], width: int) -> NDArray[np.float64]:
        return _student_density(1, w, width)


@KERNELS.register("matern32")
class Matern32(Stationary):
    """Matérn-3/2: (1 + r) exp(−r), r = √3 ‖(x−z)/ℓ‖. Functions with one derivative.

    Args:
        lengthscale, outputscale: as of `Stationary`.

    Examples:
        >>> import torch, apviz
        >>> x = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
        >>> apviz.Matern32(lengthscale=2.0)(x)
        tensor([[1.0000, 0.4834],
                [0.4834, 1.0000]], dtype=torch.float64)
    """

    title = "Matérn-3/2"
    form = "matern32"
    gpytorch = ("MaternKernel", {"nu": 1.5})
    distance_scale = math.sqrt(3.0)

    def correlation_(self, u: Tensor, spare: Tensor) -> Tensor:
        torch.neg(u.sqrt_(), out=spare).exp_()
        return u.add_(1.0).mul_(spare)

    def slope(self, u: Tensor) -> Tensor:
        return -0.5 * (-u.sqrt()).exp()

    def frequencies(self, width: int, count: int, generator: Generator) -> Tensor:
        return _student_frequencies(3, width, count, generator)

    def density(self, w: NDArray[np.float64], width: int) -> NDArray[np.float64]:
        return _student_density(3, w, width)


@KERNELS.register("matern52")
class Matern52(Stationary):
    """Matérn-5/2: (1 + r + r²/3) exp(−r), r = √5 ‖(x−z)/ℓ‖. Functions with two derivatives.

    Args:
        lengthscale, outputscale: as of `Stationary`.

    Examples:
        >>> import torch, apviz
        >>> x = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
        >>> apviz.Matern52(lengthscale=2.0)(x)
        tensor([[1.0000, 0.5240],
                [0.5240, 1.0000]], dtype=torch.float64)
    """

    title = "Matérn-5/2"
    form = "matern52"
    gpytorch = ("MaternKernel", {"nu": 2.5})
    distance_scale = math.sqrt(5.0)

    def correlation_(self, u: Tensor, spare: Tensor) -> Tensor:
        # r and u = r² are both needed; exp(−r) is written over r
        torch.sqrt(u, out=spare)
        u.mul_(1.0 / 3.0).add_(spare).add_(1.0)
        return u.mul_(spare.neg_().exp_())

    def slope(self, u: Tensor) -> Tensor:
        r = u.sqrt()
        return (1.0 + r) * (-r).exp() / -6.0

    def frequencies(self, width: int, count: int, generator: Generator) -> Tensor:
        return _student_frequencies(5, width, count, generator)

    def density(self, w: NDArray[np.float64], width: int) -> NDArray[np.float64]:
        return _student_density(5, w, width)


@KERNELS.register("rbf")
class RBF(Stationary, SquaredExponential):
    """Squared exponential: exp(−‖(x−z)/ℓ‖²/2). Functions with all derivatives.

    Args:
        lengthscale, outputscale: as of `Stationary`.

    Examples:
        >>> import torch, apviz
        >>> x = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
        >>> apviz.RBF(lengthscale=2.0)(x)  # exp(−½)
        tensor([[1.0000, 0.6065],
                [0.6065, 1.0000]], dtype=torch.float64)
    """

    title = "RBF"
    form = SquaredExponential.form
    gpytorch = ("RBFKernel", {})
    distance_scale = math.sqrt(0.5)
    frequencies = SquaredExponential.frequencies
    density = SquaredExponential.density


def _student_frequencies(degrees: int, width: int, count: int, generator: Generator) -> Tensor:
    """Frequencies of Matérn-ν in u = 2ν r², degrees = 2ν: Student's, normal ones over the root of a χ²."""
    chi_squared = torch.randn(count, degrees, dtype=torch.float64, generator=generator).square().sum(1, keepdim=True)
    return mixture_frequencies(0.5 / chi_squared, width, generator)


def _student_density(degrees: int, w: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Evaluate the density of Matérn-ν in u = 2ν r², degrees = 2ν (Rasmussen & Williams, equation 4.15)."""
    nu, power = degrees / 2, (degrees + width) / 2
    factor = math.lgamma(power) - math.lgamma(nu) + width * math.log(2.0 * math.sqrt(math.pi))
    return np.exp(factor - power * np.log1p(w * w))
