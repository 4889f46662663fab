"""Functions f(u) of a squared distance or a product u, of which kernels are made; those that several kernels share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor


class Function(ABC):
    """A function f of u, a squared distance or a product of features, as engines take it.

    Attributes:
        form: its name in `operators/native_forms.h`; empty where the compiled engine does not have it.
        of_product: whether u is a product.
        of_equality: whether f is 1 at u = 0 and 0 elsewhere, so that no function drawn from it is continuous.
        of_pairs: whether u is `between` the features of two rows: f itself, by code that no engine compiles.
        has_kink: whether the slope is infinite at u = 0, where rounding of a distance then shows most.
        shape: the parameter of the formula in addition to u; 0 if it has none.
    """

    form: str = ""
    of_product: ClassVar[bool] = False
    of_equality: ClassVar[bool] = False
    of_pairs: ClassVar[bool] = False
    has_kink: ClassVar[bool] = False

    @property
    def shape(self) -> float:
        return 0.0

    @abstractmethod
    def correlation_(self, u: Tensor, spare: Tensor) -> Tensor:
        """Compute f(u), overwriting both `u` and `spare` (same shape)."""

    @abstractmethod
    def slope(self, u: Tensor) -> Tensor:
        """Compute f′(u); 0 where it has none, at u = 0. Overwrites nothing, so that autograd differentiates it."""

    def slope_in_shape(self, u: Tensor) -> Tensor:
        """Compute the derivative of f(u) in `shape`."""
        return torch.zeros_like(u)

    def frequencies(self, width: int, count: int, generator: Generator) -> Tensor:
        """Draw ω from the spectrum of f, so that f(‖δ‖²) = E cos(ωᵀδ) (Bochner): (count, width) float64, as wide as δ.

        From generators in one state they move continuously with `shape`.

        Raises:
            ValueError: a function that does not say what its spectrum is.
        """
        raise ValueError(
            f"{type(self).__name__} has no method `frequencies`, from which functions are drawn: add one, as in "
            "apviz.Matern52, or draw values from its covariance"
        )

    def density(self, w: NDArray[np.float64], width: int) -> NDArray[np.float64]:
        """Evaluate the spectral density s at frequencies of length w: f(‖δ‖²) = (2π)^−width ∫ s(‖ω‖) cos(ωᵀδ) dω.

        Raises:
            ValueError: a function whose density is not known.
        """
        raise ValueError(f"{type(self).__name__} has no method `density`; add one, as in apviz.Matern52")

    @property
    def power(self) -> int:
        """Of a function of a product: the p of f(u) = uᵖ.

        Raises:
            ValueError: a function that does not say what it is.
        """
        raise ValueError(f"{type(self).__name__} has no `power`, the exponent of the product; add one")

    # --- where it is of pairs -----------------------------------------------------------------------------------------

    def between(self, left: Tensor, right: Tensor) -> Tensor:
        """Evaluate f of features (n, width), (m, width), to (n, m)."""
        raise NotImplementedError

    def differentiable_between(self, left: Tensor, right: Tensor) -> Tensor:
        """The same for autograd, which differentiates it in both sides; left and right may be one tensor."""
        raise NotImplementedError

    def of_each(self, rows: Tensor) -> Tensor:
        """Evaluate f of every row with itself, (n, width) to (n,)."""
        raise NotImplementedError

    def pair_gradients(self, left: Tensor, right: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
        """Differentiate Σᵢⱼ Mᵢⱼ f(leftᵢ, rightⱼ) in the left rows, (n, width), and in its numbers, (p,); float64.

        Where left and right are one tensor, M is symmetric.
        """
        raise NotImplementedError


class InnerProduct(Function):
    """The product of features itself."""

    form = "inner_product"
    of_product = True
    power = 1

    def correlation_(self, u: Tensor, spare: Tensor) -> Tensor:
        return u

    def slope(self, u: Tensor) -> Tensor:
        return torch.ones_like(u)


class SquaredExponential(Function):
    """exp(−u) of a squared distance u: the function of RBF kernels, of inputs or of other features."""

    form = "rbf"

    def correlation_(self, u: Tensor, spare: Tensor) -> Tensor:
        return u.neg_().exp_()

    def slope(self, u: Tensor) -> Tensor:
        return -(-u).exp()

    def frequencies(self, width: int, count: int, generator: Generator) -> Tensor:
        return mixture_frequencies(torch.ones(count, 1, dtype=torch.float64), width, generator)

    def density(self, w: NDArray[np.float64], width: int) -> NDArray[np.float64]:
        return np.asarray(math.pi ** (width / 2) * np.exp(-0.25 * w * w))


def mixture_frequencies(rates: Tensor, width: int, generator: Generator) -> Tensor:
    """Draw the frequencies of E[exp(−su)] for rates s, (count, 1) or 1: normal ones of variance 2s, (count, width).

    Every f that is a kernel whatever the width is such a mixture (Schoenberg, 1938).
    """
    return (2.0 * rates).sqrt() * torch.randn(len(rates), width, dtype=torch.float64, generator=generator)
