"""The gradient of the negative marginal log likelihood from one batched solve (paper, section 2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.operators import CountingOperator


@dataclass(frozen=True, eq=False)
class Gradient:
    """∂ℓ/∂θ of ℓ = ½((y − m)ᵀK⁻¹(y − m) + log det K), in nats per unit of θ; lengthscale: (1,) or (d,) float64."""

    mean: float
    noise: float
    outputscale: float
    lengthscale: Tensor


def marginal_likelihood_gradient(operator: CountingOperator, weights: Tensor, dual: Tensor) -> Gradient:
    """The estimate of ∂ℓ/∂θ; one pass over the entries of K (1.0 work), no n × n array.

    ∂ℓ/∂θ = −½ w₀ᵀ ∂K w₀ + ½ tr(K⁻¹∂K), and the trace is the mean over probes of (K⁻¹zᵢ)ᵀ ∂K (P⁻¹zᵢ). Unbiased where
    the solves are exact; exact with the n probes √n·eᵢ.

    Args:
        weights: (n, l+1), K⁻¹ times the targets minus the mean, then times the probes.
        dual: (n, l), P⁻¹ times the probes, as `apviz.gp.probes` returns them.

    Raises:
        ValueError: shapes that do not match, or no probes.
    """
    n, columns = weights.shape
    if columns < 2 or dual.shape != (n, columns - 1):
        raise ValueError(
            f"weights must be (n, l+1) and dual (n, l) with l ≥ 1, got {tuple(weights.shape)} and {tuple(dual.shape)}"
        )
    right = torch.cat([weights[:, :1] * -0.5, dual * (0.5 / (columns - 1))], dim=1)
    found = operator.bilinear_derivatives(weights, right)
    mean = -float(weights[:, 0].sum(dtype=torch.float64))
    return Gradient(mean, float(found.noise), float(found.outputscale), found.lengthscale.cpu())
