"""The rational quadratic: RBF kernels of many lengthscales at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from apviz.kernels.functions import mixture_frequencies
from apviz.kernels.leaf import Lengthscale
from apviz.kernels.stationary import KERNELS, Stationary
from apviz.settings import positive


@KERNELS.register("rational-quadratic")
@dataclass(frozen=True, init=False, repr=False)
class RationalQuadratic(Stationary):
    """Rational quadratic: (1 + r²/(2α))^(−α), r = ‖(x−z)/ℓ‖ (Rasmussen & Williams, equation 4.19).

    A mixture of RBF kernels whose ℓ⁻² are gamma distributed; the larger α, the closer to one RBF.

    Args:
        lengthscale, outputscale: as of `Stationary`.
        alpha: the positive α, without unit. Trainings of the kernel by name leave it as it is.

    Raises:
        ValueError: a lengthscale, outputscale or α that is not finite and positive.

    Examples:
        >>> import torch, apviz
        >>> x = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
        >>> apviz.RationalQuadratic(lengthscale=1.0, alpha=0.5)(x)  # 1/√(1 + r²)
        tensor([[1.0000, 0.4472],
                [0.4472, 1.0000]], dtype=torch.float64)
    """

    alpha: float

    title = "rational quadratic"
    form = "rational_quadratic"
    gpytorch = ("RQKernel", {})

    def __init__(self, *, lengthscale: Lengthscale = 1.0, outputscale: float = 1.0, alpha: float = 1.0) -> None:
        super().__init__(lengthscale=lengthscale, outputscale=outputscale)
        object.__setattr__(self, "alpha", positive("alpha", alpha))

    @property
    def distance_scale(self) -> float:
        return 1.0 / math.sqrt(2.0 * self.alpha)

    def distance_scale_at(self, values: Mapping[str, Tensor]) -> Tensor:
        return (2.0 * values["alpha"]).rsqrt()

    @property
    def shape(self) -> float:
        return self.alpha

    def shape_at(self, values: Mapping[str, Tensor]) -> Tensor:
        return values["alpha"]

    def frequencies(self, width: int, count: int, generator: Generator) -> Tensor:
        from scipy.special import gammaincinv  # a quarter of a second to import

        # by quantiles, which move with α as the draws of a generator would not
        quantiles = torch.rand(count, 1, dtype=torch.float64, generator=generator)
        rates = torch.from_numpy(gammaincinv(self.alpha, quantiles.numpy()))
        return mixture_frequencies(rates, width, generator)

    def density(self, w: NDArray[np.float64], width: int) -> NDArray[np.float64]:
        from scipy.special import gammaln, kve

        # the mean of π^(width/2) s^(−width/2) exp(−w²/4s) over gamma distributed s; infinite at 0 where α ≤ width/2
        order = self.alpha - width / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            log = math.log(2.0) + width / 2 * math.log(math.pi) - gammaln(self.alpha) + order * np.log(w / 2) - w
            return np.asarray(np.exp(log) * kve(order, w))

    def correlation_(self, u: Tensor, spare: Tensor) -> Tensor:
        return u.log1p_().mul_(-self.alpha).exp_()

    def slope(self, u: Tensor) -> Tensor:
        return (-(1.0 + self.alpha) * u.log1p()).exp() * -self.alpha

    def slope_in_shape(self, u: Tensor) -> Tensor:
        return -u.log1p() * (-self.alpha * u.log1p()).exp()
