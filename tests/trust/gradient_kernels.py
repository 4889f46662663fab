"""Kernels of the campaign `gradients`: every class that GPyTorch exports, and user kernels that take shortcuts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from gpytorch import kernels as k
from linear_operator.operators import MatmulLinearOperator, RootLinearOperator
from torch import Tensor

Build = Callable[[int, dict[str, Any]], k.Kernel]


@dataclass(frozen=True)
class Family:
    """A kernel and its possible uses.

    Args:
        build: from the number of columns, and settings: `batch_shape`, and `ard_num_dims` where it has ARD.
        columns: numbers of columns that it takes.
        outputs: of an input with that number of columns.
        batch: whether it takes a batch shape.
        parts: whether it can be a part of another kernel.
        alone: whether what it returns can be taken as it is.
        inputs: `any`, or the only inputs that it takes: `grid`, `tokens`, `tasks`.
    """

    build: Build
    columns: tuple[int, ...] = (1, 2, 3)
    outputs: Callable[[int], int] = lambda q: 1
    ard: bool = False
    batch: bool = True
    parts: bool = True
    alone: bool = True
    inputs: str = "any"


# --- user kernels that take another way where both sides look equal ---------------------------------------------------


class Features(k.Kernel):
    """A product of features, φ(x)ᵀφ(z), whose right side is computed as subclasses decide."""

    has_lengthscale = True

    def __init__(self, q: int, **settings: Any) -> None:
        super().__init__(**settings)
        shape = (*self.batch_shape, q, 6)
        self.weights = torch.nn.Parameter(torch.randn(shape))

    def phi(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ (self.weights / self.lengthscale.mT) + 0.3)

    def right(self, x1: Tensor, x2: Tensor, left: Tensor) -> Tensor:
        return left if torch.equal(x1, x2) else self.phi(x2)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        left = self.phi(x1)
        right = self.right(x1, x2, left)
        return (left * right).sum(-1) if diag else left @ right.mT


class SameObject(Features):
    def right(self, x1: Tensor, x2: Tensor, left: Tensor) -> Tensor:
        return left if x1 is x2 else self.phi(x2)


class SameStorage(Features):
    def right(self, x1: Tensor, x2: Tensor, left: Tensor) -> Tensor:
        same = x1.data_ptr() == x2.data_ptr() and x1.shape == x2.shape
        return left if same else self.phi(x2)


class Close(Features):
    def right(self, x1: Tensor, x2: Tensor, left: Tensor) -> Tensor:
        return left if x1.shape == x2.shape and torch.allclose(x1, x2, atol=1e-6) else self.phi(x2)


class FromTheLeft(Features):
    def right(self, x1: Tensor, x2: Tensor, left: Tensor) -> Tensor:
        return self.phi(x1 if torch.equal(x1, x2) else x2)


class KeepsFeatures(Features):
    """Keeps the features of the last rows."""

    last: tuple[Tensor, Tensor] | None = None

    def right(self, x1: Tensor, x2: Tensor, left: Tensor) -> Tensor:
        self.last = (x1, left)
        return self.last[1] if torch.equal(self.last[0], x2) else self.phi(x2)


class KeepsDistances(k.Kernel):
    """Keeps the distances of the last rows, which depend on no parameter of its own."""

    has_lengthscale = True

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.kept: dict[str, Any] = {}

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        if diag:
            return x1.new_ones(x1.shape[:-1])
        known = self.kept.get("rows")
        if known is None or not (torch.equal(known[0], x1) and torch.equal(known[1], x2)):
            self.kept["rows"] = (x1.detach(), x2.detach())
            self.kept["distances"] = (x1[..., :, None, :] - x2[..., None, :, :]).square().sum(-1)
        return torch.exp(-self.kept["distances"] / self.lengthscale.square())


class KeepsInBuffers(KeepsDistances):
    """Keeps distances in buffers, which are saved with the module."""

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        if not (hasattr(self, "rows") and torch.equal(self.rows, x1) and torch.equal(self.columns, x2)):
            self.register_buffer("rows", x1.detach(), persistent=False)
            self.register_buffer("columns", x2.detach(), persistent=False)
            gaps = (x1[..., :, None, :] - x2[..., None, :, :]).square().sum(-1)
            self.register_buffer("gaps", gaps, persistent=False)
        full = torch.exp(-self.gaps / self.lengthscale.square())
        return full.diagonal(dim1=-1, dim2=-2) if diag else full


class DrawsAtFirstCall(k.Kernel):
    """Random features drawn at the first call, and not stored in a buffer."""

    has_lengthscale = True

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Any:
        if not hasattr(self, "drawn"):
            self.drawn = torch.randn(x1.shape[-1], 8, dtype=x1.dtype)
        left = torch.cos(x1 @ (self.drawn / self.lengthscale.mT))
        if diag:
            return left.square().sum(-1)
        if torch.equal(x1, x2):
            return RootLinearOperator(left)
        return MatmulLinearOperator(left, torch.cos(x2 @ (self.drawn / self.lengthscale.mT)).mT)


class NetworkInside(k.Kernel):
    """A deep kernel with its own network, which is called once if both sides are equal."""

    def __init__(self, q: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.net = torch.nn.Sequential(torch.nn.Linear(q, 3), torch.nn.Tanh())
        self.base = k.MaternKernel(2.5)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Any:
        left = self.net(x1)
        return self.base(left, left if torch.equal(x1, x2) else self.net(x2), diag=diag, **params)


class ConstantDiagonal(k.RBFKernel):
    """Returns the diagonal as a constant, without a graph."""

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        if diag:
            return x1.new_ones(x1.shape[:-1])
        gaps = (x1 / self.lengthscale)[..., :, None, :] - (x2 / self.lengthscale)[..., None, :, :]
        values = torch.exp(-0.5 * gaps.square().sum(-1))
        if torch.equal(x1, x2):  # only half of it
            values = values.triu() + values.triu(1).mT
        return values


# --- what has to be refused -------------------------------------------------------------------------------------------


class WithoutGraphIfUnequal(Features):
    """Has no graph between different rows: a training in tiles would have no gradients there."""

    def right(self, x1: Tensor, x2: Tensor, left: Tensor) -> Tensor:
        return left if torch.equal(x1, x2) else self.phi(x2).detach()


class SameShape(Features):
    """Treats both sides as equal if they have the same number of rows."""

    def right(self, x1: Tensor, x2: Tensor, left: Tensor) -> Tensor:
        return left if x1.shape == x2.shape else self.phi(x2)


class JitterIfEqual(Features):
    """Adds jitter to the diagonal if both sides are equal, so entries differ from those in tiles."""

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        values = super().forward(x1, x2, diag, **params)
        return values + 1e-4 * torch.eye(x1.shape[-2]).to(values) if not diag and torch.equal(x1, x2) else values


class CentredRows(Features):
    """A kernel of inputs minus their mean: every entry depends on all rows."""

    def phi(self, x: Tensor) -> Tensor:
        return super().phi(x - x.mean(-2, keepdim=True))


USER: dict[str, Family] = {
    **{
        kind.__name__: Family(lambda q, s, kind=kind: kind(q, **s), ard=True)
        for kind in (Features, SameObject, SameStorage, Close, FromTheLeft, KeepsFeatures)
    },
    **{
        kind.__name__: Family(lambda q, s, kind=kind: kind(**s), ard=kind is ConstantDiagonal, batch=False)
        for kind in (KeepsDistances, KeepsInBuffers, DrawsAtFirstCall, ConstantDiagonal)
    },
    "NetworkInside": Family(lambda q, s: NetworkInside(q, **s), batch=False),
}  # fmt: skip

GPYTORCH: dict[str, Family] = {
    "RBFKernel": Family(lambda q, s: k.RBFKernel(**s), ard=True),
    **{
        f"MaternKernel {nu}": Family(lambda q, s, nu=nu: k.MaternKernel(nu, **s), ard=True) for nu in (0.5, 1.5, 2.5)
    },
    "RQKernel": Family(lambda q, s: k.RQKernel(**s), ard=True),
    "PeriodicKernel": Family(lambda q, s: k.PeriodicKernel(**s), ard=True),
    "LinearKernel": Family(lambda q, s: k.LinearKernel(**s), ard=True),
    **{
        f"PolynomialKernel {power}": Family(lambda q, s, power=power: k.PolynomialKernel(power, **s))
        for power in (2, 3)
    },
    **{
        f"PiecewisePolynomialKernel {q}": Family(lambda _, s, q=q: k.PiecewisePolynomialKernel(q, **s), ard=True)
        for q in (0, 1, 2, 3)
    },
    "ConstantKernel": Family(lambda q, s: k.ConstantKernel(**s)),
    "CosineKernel": Family(lambda q, s: k.CosineKernel(**s), columns=(1,)),
    "SpectralMixtureKernel": Family(lambda q, s: k.SpectralMixtureKernel(num_mixtures=2, **s | {"ard_num_dims": q})),
    "SpectralDeltaKernel": Family(
        lambda q, s: k.SpectralDeltaKernel(num_dims=q, num_deltas=8, **s | {"ard_num_dims": q})
    ),
    "RFFKernel": Family(lambda q, s: k.RFFKernel(num_samples=9, num_dims=q, **s), ard=True),
    "RFFKernel, drawn at the first call": Family(lambda q, s: k.RFFKernel(num_samples=9, **s), ard=True, batch=False),
    "GridInterpolationKernel": Family(
        lambda q, s: k.GridInterpolationKernel(
            k.MaternKernel(2.5), grid_size=24 if q == 1 else 12, grid_bounds=[(-1.6, 1.6)] * q
        ),
        columns=(1, 2), batch=False,
    ),
    "GridKernel": Family(lambda q, s: k.GridKernel(k.RBFKernel(), grid=grid(q)), columns=(1, 2), batch=False),
    "GridKernel, on its grid": Family(
        lambda q, s: k.GridKernel(k.RBFKernel(), grid=grid(q)), columns=(1, 2), batch=False, inputs="grid"
    ),
    "ArcKernel": Family(lambda q, s: k.ArcKernel(k.MaternKernel(2.5), ard_num_dims=q), columns=(2, 3), batch=False),
    "CylindricalKernel": Family(
        lambda q, s: k.CylindricalKernel(2, k.MaternKernel(2.5)), columns=(2,), batch=False
    ),
    "AdditiveStructureKernel": Family(
        lambda q, s: k.AdditiveStructureKernel(k.ScaleKernel(k.MaternKernel(1.5)), q), batch=False
    ),
    "ProductStructureKernel": Family(
        lambda q, s: k.ProductStructureKernel(k.RBFKernel(), q), batch=False, alone=False
    ),
    "ProductStructureKernel of RFF": Family(
        lambda q, s: k.ProductStructureKernel(k.RFFKernel(num_samples=5, num_dims=1), q), batch=False, alone=False,
        columns=(1, 2),  # for three columns, linear_operator 0.6 multiplies by the rank ÷ n
    ),
    "NewtonGirardAdditiveKernel": Family(
        lambda q, s: k.NewtonGirardAdditiveKernel(k.RBFKernel(ard_num_dims=q), q, max_degree=min(q, 2)), batch=False
    ),
    "GaussianSymmetrizedKLKernel": Family(
        lambda q, s: k.GaussianSymmetrizedKLKernel(), columns=(2,), batch=False
    ),
    "DistributionalInputKernel": Family(
        lambda q, s: k.DistributionalInputKernel(
            lambda x, z: (x[..., :, None, :] - z[..., None, :, :]).square().sum(-1), has_lengthscale=True
        ),
        batch=False,
    ),
    "HammingIMQKernel": Family(
        lambda q, s: k.HammingIMQKernel(vocab_size=3), columns=(6,), batch=False, inputs="tokens"
    ),
    "IndexKernel": Family(
        lambda q, s: k.IndexKernel(num_tasks=4, rank=2), columns=(1,), batch=False, inputs="tasks"
    ),
    "MultitaskKernel": Family(
        lambda q, s: k.MultitaskKernel(k.MaternKernel(1.5), num_tasks=2, rank=1), outputs=lambda q: 2, parts=False,
        batch=False,
    ),
    "MultitaskKernel of RFF": Family(
        lambda q, s: k.MultitaskKernel(k.RFFKernel(num_samples=9, num_dims=q), num_tasks=2), outputs=lambda q: 2,
        parts=False, batch=False,
    ),
    "LCMKernel": Family(
        lambda q, s: k.LCMKernel([k.RBFKernel(), k.MaternKernel(2.5)], num_tasks=2), outputs=lambda q: 2,
        parts=False, batch=False,
    ),
    "RBFKernelGrad": Family(
        lambda q, s: k.RBFKernelGrad(ard_num_dims=q), columns=(1, 2), outputs=lambda q: q + 1, parts=False, batch=False
    ),
    "Matern52KernelGrad": Family(
        lambda q, s: k.Matern52KernelGrad(ard_num_dims=q), columns=(1, 2), outputs=lambda q: q + 1, parts=False,
        batch=False,
    ),
    "PolynomialKernelGrad": Family(
        lambda q, s: k.PolynomialKernelGrad(2), columns=(1, 2), outputs=lambda q: q + 1, parts=False, batch=False
    ),
}  # fmt: skip

REFUSED: dict[str, Family] = {
    # in GPyTorch 1.15, only for equal numbers of rows on both sides
    "RBFKernelGradGrad": Family(
        lambda q, s: k.RBFKernelGradGrad(ard_num_dims=q), columns=(1, 2), outputs=lambda q: 2 * q + 1, parts=False,
        batch=False,
    ),
    # evaluates itself when it is called
    "ProductStructureKernel by itself": Family(
        lambda q, s: k.ProductStructureKernel(k.RBFKernel(), q), columns=(2, 3), batch=False, parts=False
    ),
    "InducingPointKernel": Family(
        lambda q, s: k.InducingPointKernel(k.RBFKernel(), torch.rand(4, q), None), batch=False
    ),
    "GridInterpolationKernel without grid_bounds": Family(
        lambda q, s: k.GridInterpolationKernel(k.RBFKernel(), grid_size=12, num_dims=q), columns=(1, 2), batch=False
    ),
    **{
        kind.__name__: Family(lambda q, s, kind=kind: kind(q, **s))
        for kind in (WithoutGraphIfUnequal, SameShape, JitterIfEqual, CentredRows)
    },
}  # fmt: skip


def grid(q: int) -> list[Tensor]:
    """Return points of a grid: 9 in one column, or 3 in each of two."""
    return [torch.linspace(-1, 1, 9 if q == 1 else 3, dtype=torch.float64)] * q
