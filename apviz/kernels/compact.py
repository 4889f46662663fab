"""Kernels that are 0 from some distance on: piecewise polynomials, spherical, and white noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Generator, Tensor

from apviz.kernels.algebra import Kernel
from apviz.kernels.functions import Function
from apviz.kernels.leaf import Leaf, Lengthscale
from apviz.kernels.stationary import Stationary
from apviz.settings import positive

# columns: of more, rounding is larger than the integrals
MAX_SPECTRUM_WIDTH = 12
# inputs of which the spherical kernel is positive definite
MAX_SPHERICAL_WIDTH = 3
# enough for the waves of the longest frequencies
QUADRATURE_NODES = 1_500


class _Piecewise(Function):
    """(1 − r)₊^(j + q) times a polynomial in r = √u."""

    def __init__(self, q: int, j: int) -> None:
        self.q, self.j = q, j
        self.form = f"piecewise<{q}, {j}>"
        self.has_kink = q == 0  # type: ignore[misc]
        # of the polynomial, from the constant on (Rasmussen & Williams, equation 4.21)
        self._coefficients: tuple[float, ...] = (
            (1.0,),
            (1.0, j + 1.0),
            (1.0, j + 2.0, (j * j + 4 * j + 3) / 3),
            (1.0, j + 3.0, (6 * j * j + 36 * j + 45) / 15, (j**3 + 9 * j * j + 23 * j + 15) / 15),
        )[q]

    def correlation_(self, u: Tensor, spare: Tensor) -> Tensor:
        r = u.sqrt_()
        polynomial = sum(c * r**k for k, c in enumerate(self._coefficients))
        return (1.0 - r).clamp_(min=0.0).pow_(self.j + self.q).mul_(polynomial)

    def slope(self, u: Tensor) -> Tensor:
        r, power = u.sqrt(), self.j + self.q
        left = (1.0 - r).clamp(min=0.0)
        polynomial = sum(c * r**k for k, c in enumerate(self._coefficients))
        # the first coefficients make the bracket vanish with r where q > 0
        derivative = sum(k * c * r ** (k - 1) for k, c in enumerate(self._coefficients) if k)
        bracket = left * derivative - power * polynomial
        # beyond the support 0⁰ is 1
        inside = (left > 0) * left ** (power - 1)
        return torch.where(r > 0, inside * bracket / (2 * r), self._slope_at_zero)

    def frequencies(self, width: int, count: int, generator: Generator) -> Tensor:
        if width > MAX_SPECTRUM_WIDTH:
            raise ValueError(
                f"the spectrum of a piecewise polynomial is known for up to {MAX_SPECTRUM_WIDTH} columns, got "
                f"{width}: use a Matérn kernel, choose columns by `on`, or draw values from its covariance"
            )
        lengths, cumulated = _lengths_of_frequencies(self.q, self.j, width)
        uniform = torch.rand(count, dtype=torch.float64, generator=generator).numpy()
        length = torch.from_numpy(np.interp(uniform, cumulated, lengths))
        direction = torch.randn(count, width, dtype=torch.float64, generator=generator)
        length /= torch.linalg.vector_norm(direction, dim=1)
        return direction * length[:, None]

    @property
    def _slope_at_zero(self) -> float:
        if self.q == 0:
            return 0.0  # it has none
        # of (1 − r)^p Σ cₖ rᵏ = 1 + (c₁ − p) r + (c₂ − p c₁ + p(p − 1)/2) r² + …, with c₁ = p
        power, c = self.j + self.q, (*self._coefficients, 0.0, 0.0)
        return c[2] - power * c[1] + power * (power - 1) / 2


@lru_cache(maxsize=64)
def _lengths_of_frequencies(q: int, j: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths R of frequencies, and P(‖ω‖ ≤ R) = 2^(1−w/2)/Γ(w/2) R^(w/2) ∫₀¹ f(t²) t^(w/2−1) J_{w/2}(Rt) dt.

    The Hankel transform of f, integrated over a ball. To 3e-4; longer than 2,000, as up to 1% are where q = 0, is taken
    to be as long.
    """
    from scipy.special import gammaln, jv  # a quarter of a second to import

    nodes, weights = np.polynomial.legendre.leggauss(QUADRATURE_NODES)
    t, half = 0.5 * (nodes + 1.0), 0.5 * width
    f = _Piecewise(q, j).correlation_(torch.from_numpy(t * t), torch.empty(0)).numpy()
    lengths = np.geomspace(1e-2, 2_000.0, 500)
    integrals = jv(half, lengths[:, None] * t) @ (0.5 * weights * f * t ** (half - 1.0))
    cumulated = np.exp((1.0 - half) * math.log(2.0) - gammaln(half) + half * np.log(lengths)) * integrals
    return lengths, np.maximum.accumulate(cumulated)


@dataclass(frozen=True, init=False, repr=False)
class PiecewisePolynomial(Stationary):
    """Piecewise polynomial of compact support: 0 from a lengthscale on (Rasmussen & Williams, section 4.2.1).

    Args:
        q: 0, 1, 2 or 3: functions with q derivatives.
        lengthscale, outputscale: as of `Stationary`.

    Raises:
        ValueError: another q, a number that is not finite and positive.

    Examples:
        >>> import torch, apviz
        >>> x = torch.tensor([[0.0], [0.5], [1.0]], dtype=torch.float64)
        >>> apviz.PiecewisePolynomial(q=0)(x)[0]  # 1 − r
        tensor([1.0000, 0.5000, 0.0000], dtype=torch.float64)
    """

    q: int

    title = "piecewise polynomial"
    distance_scale = 1.0

    def __init__(self, *, q: int = 2, lengthscale: Lengthscale = 1.0, outputscale: float = 1.0) -> None:
        super().__init__(lengthscale=lengthscale, outputscale=outputscale)
        if q not in (0, 1, 2, 3):
            raise ValueError(f"q must be 0, 1, 2 or 3, got {q!r}")
        object.__setattr__(self, "q", int(q))

    def function(self, d: int) -> Function:
        return _Piecewise(self.q, d // 2 + self.q + 1)

    @classmethod
    def parameter_names(cls) -> list[str]:
        return []

    @property
    def name(self) -> str:
        return repr(self)

    def correlation_(self, u: Tensor, spare: Tensor) -> Tensor:
        raise NotImplementedError  # depends on the number of inputs

    def slope(self, u: Tensor) -> Tensor:
        raise NotImplementedError


class Spherical(Stationary):
    """Spherical: 1 − 3r/2 + r³/2 for r = ‖(x−z)/ℓ‖ < 1, else 0. Of up to three inputs, and nowhere smooth.

    Geostatistics calls its lengthscale the range (Chilès & Delfiner, *Geostatistics*, section 2.5.1).

    Args:
        lengthscale, outputscale: as of `Stationary`.

    Raises:
        ValueError: when it is used, more than three inputs, for which it is not a covariance.

    Examples:
        >>> import torch, apviz
        >>> apviz.Spherical(lengthscale=2.0)(torch.tensor([[0.0], [1.0], [2.0]]))[0]
        tensor([1.0000, 0.3125, 0.0000])
    """

    title = "spherical"
    form = "spherical"
    distance_scale = 1.0
    has_kink = True

    def function(self, d: int) -> Function:
        if d > MAX_SPHERICAL_WIDTH:
            raise ValueError(
                f"the spherical kernel is a covariance of up to {MAX_SPHERICAL_WIDTH} inputs, got {d}: choose columns "
                "by `on`, or a Matérn kernel"
            )
        return self

    def correlation_(self, u: Tensor, spare: Tensor) -> Tensor:
        torch.sqrt(u, out=spare).clamp_(max=1.0)
        return torch.mul(spare, spare, out=u).mul_(0.5).sub_(1.5).mul_(spare).add_(1.0)

    def slope(self, u: Tensor) -> Tensor:
        r = u.sqrt()
        return torch.where((r > 0) & (r < 1), 0.75 * (u - 1.0) / r, 0.0)


@dataclass(frozen=True, init=False, repr=False)
class White(Leaf):
    """White noise: its variance between equal inputs, 0 between others.

    Unlike the noise σ² of a system, it is part of f: rows with equal inputs share it, and test inputs that equal a
    training input too.

    Args:
        outputscale: the positive variance.

    Raises:
        ValueError: a variance that is not finite and positive.

    Examples:
        >>> import torch, apviz
        >>> apviz.White(outputscale=0.5)(torch.tensor([[0.0], [1.0], [0.0]]))
        tensor([[0.5000, 0.0000, 0.5000],
                [0.0000, 0.5000, 0.0000],
                [0.5000, 0.0000, 0.5000]])
    """

    form = "equal"
    of_equality = True
    has_kink = True  # distances are differences: what cancels in a product would set equal inputs apart

    def __init__(self, *, outputscale: float = 1.0) -> None:
        object.__setattr__(self, "outputscale", positive("outputscale", outputscale))

    def embed(self, x: Tensor, centre: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        # in two halves, so that inputs which float32 cannot tell apart stay different
        shifted = x - centre
        rounded = shifted.float().double()
        return torch.cat([rounded, shifted - rounded], 1)

    def rescaled(self, centre: Sequence[float], unit: Sequence[float]) -> Kernel:
        return self if self._has_embedding_of(White) else super().rescaled(centre, unit)

    def correlation_(self, u: Tensor, spare: Tensor) -> Tensor:
        return u.copy_(u == 0)

    def slope(self, u: Tensor) -> Tensor:
        return torch.zeros_like(u)
