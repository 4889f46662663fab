"""Probe vectors: random right-hand sides z with E[zzᵀ] = P, which reduce a trace to solves.

tr(K⁻¹ ∂K) = E[(K⁻¹z)ᵀ ∂K (P⁻¹z)] for every P (paper, section 2; Gardner et al., 2018, section 4.1). For P = K both
factors are the solution. Its expected squared K-norm, the initial error from W = 0, is then n for any K; for P = I it
is tr K⁻¹ (Lin et al., NeurIPS 2024, "pathwise").
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.gp.prediction.pathwise import FEATURES, PriorSamples
from apviz.memory import require_memory
from apviz.operators import Operator
from apviz.preconditioners import PivotedCholesky, RandomlyPivotedCholesky
from apviz.preconditioners.low_rank import LowRankPlusNoise
from apviz.settings import require_kind, require_seed, require_whole
from apviz.solvers import Prepared, Solver

# bytes for each entry while it is drawn: an int64, a float32 and the result
PROBE_BYTES = 20


@dataclass(frozen=True, eq=False)
class Probes:
    """Probes z: (n, l), and their dual P⁻¹z: (n, l). The dual is None for P = K."""

    z: Tensor
    dual: Tensor | None

    def dual_of(self, weights: Tensor) -> Tensor:
        """Return P⁻¹z, (n, l), from the weights of targets and probes, (n, l+1)."""
        return weights[:, 1:] if self.dual is None else self.dual


def rademacher(n: int, count: int, seed: int, like: Tensor) -> Probes:
    """Draw probes with entries ±1 (P = I), the paper's for alternating projection (appendix, GP training).

    Args:
        n, count: numbers of rows and of vectors.
        like: tensor with the dtype and device of the result.

    Raises:
        ValueError, TypeError: an invalid number, seed or `like`.
        MemoryError: the probes do not fit the free memory.

    Examples:
        >>> import torch, apviz
        >>> probes = apviz.rademacher(100, 3, seed=0, like=torch.zeros(1))
        >>> probes.z.shape, probes.z.unique()
        (torch.Size([100, 3]), tensor([-1.,  1.]))
    """
    require_whole("n", n, 1)
    require_whole("count", count, 1)
    require_seed(seed)
    require_kind("like", like, Tensor, "a tensor with the dtype and device of the probes")
    require_memory(PROBE_BYTES * float(n) * count, like.device, f"{count:,} probes need", "use fewer")
    z = 2.0 * torch.randint(2, (n, count), generator=torch.Generator().manual_seed(int(seed))) - 1.0
    z = z.to(like)
    return Probes(z, z)


def pathwise(operator: Operator, count: int, seed: int) -> Probes:
    """Draw z = f(X) + ε from N(0, K), with f from the prior by 2,000 random features for each term of the kernel.

    With a fixed seed, the probes depend continuously on the hyperparameters, so a solve may start from the last
    weights. The error of the features biases the gradient; the bias falls with the root of their number.

    Raises:
        ValueError: a part of the kernel has no known spectrum.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 500, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.RBF(lengthscale=0.2), noise=0.01, device="cpu")
        >>> from apviz.gp.training.probes import pathwise
        >>> z = pathwise(system.operator, 64, seed=0).z
        >>> bool((z.square().mean() - 1.01).abs() < 0.2)  # k(x, x) + σ²
        True
    """
    seeds = [3 * seed + k for k in range(3)]  # independent draws need different seeds
    x = operator.given
    f = PriorSamples(operator.kernel.random_features(x, FEATURES, seeds[0]), count, seeds[1])(x, operator.x.dtype)
    normal = torch.randn(operator.n, count, dtype=torch.float64, generator=torch.Generator().manual_seed(seeds[2]))
    deviation = torch.as_tensor(operator.noise_of(), dtype=torch.float64).sqrt().reshape(-1, 1)
    return Probes(f + (deviation.cpu() * normal).to(f), None)


def draw(solver: Solver, operator: Operator, count: int, seed: int) -> tuple[Probes, Prepared | None]:
    """Draw probes from the law that suits a solver; also return the solver's set-up if they are drawn from it.

    CG with a low-rank preconditioner P gets z from N(0, P), as in GPyTorch. Other solvers get Rademacher probes.
    """
    preconditioner = getattr(solver, "preconditioner", None)
    # only the inverse of a two-level Schwarz preconditioner is known, so N(0, P) cannot be sampled
    if isinstance(preconditioner, PivotedCholesky | RandomlyPivotedCholesky):
        prepared = solver.prepare(operator, count + 1)
        built = prepared.preconditioner
        assert isinstance(built, LowRankPlusNoise)  # both build one
        z = built.sample(count, torch.Generator().manual_seed(int(seed)))
        return Probes(z, built(z)), prepared
    return rademacher(operator.n, count, seed, operator.x), None
