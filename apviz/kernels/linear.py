"""Kernels of a product of features: linear, polynomial, constant, and tables of covariances between groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from apviz.kernels.algebra import Kernel
from apviz.kernels.functions import InnerProduct
from apviz.kernels.leaf import Leaf, Lengthscale, in_units, numbers_of, per_column, positives
from apviz.settings import positive, require_whole

#: the largest degree of a polynomial
MAX_DEGREE = 16


@dataclass(frozen=True, init=False, repr=False)
class Linear(Leaf, InnerProduct):
    """Linear: Σₖ xₖzₖ/ℓₖ², of straight lines through 0 with slopes of variance outputscale/ℓ².

    Args:
        lengthscale: ℓ: one positive number, or d of them, in the units of the inputs.
        outputscale: a positive factor.

    Raises:
        ValueError: a number that is not finite and positive.

    Examples:
        >>> import torch, apviz
        >>> apviz.Linear(lengthscale=2.0)(torch.tensor([[1.0], [4.0]]))
        tensor([[0.2500, 1.0000],
                [1.0000, 4.0000]])
    """

    lengthscale: float | tuple[float, ...]

    def __init__(self, *, lengthscale: Lengthscale = 1.0, outputscale: float = 1.0) -> None:
        object.__setattr__(self, "lengthscale", positives("lengthscale", lengthscale))
        object.__setattr__(self, "outputscale", positive("outputscale", outputscale))

    def embed(self, x: Tensor, centre: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        return x / per_column("lengthscale", values, x)

    def rescaled(self, centre: Sequence[float], unit: Sequence[float]) -> Kernel:
        if not (self._has_embedding_of(Linear) or self._has_embedding_of(Polynomial)):
            return super().rescaled(centre, unit)
        if any(centre):
            raise ValueError(
                f"{self!r} depends on the origin of its inputs, so apviz cannot convert it to centred inputs"
            )
        return self.with_hyperparameters({"lengthscale": in_units("lengthscale", self.lengthscale, unit)})


@dataclass(frozen=True, init=False, repr=False)
class Polynomial(Linear):
    """Polynomial: (Σₖ xₖzₖ/ℓₖ² + offset)^degree.

    Args:
        degree: a whole number from 1 to 16.
        lengthscale: ℓ: one positive number, or d of them, in the units of the inputs.
        offset: a positive number.
        outputscale: a positive factor.

    Raises:
        ValueError: a number that is not finite and positive, another degree.

    Examples:
        >>> import torch, apviz
        >>> apviz.Polynomial(degree=2)(torch.tensor([[1.0], [2.0]]))  # (xz + 1)²
        tensor([[ 4.,  9.],
                [ 9., 25.]])
    """

    offset: float
    degree: int

    def __init__(
        self, *, degree: int, lengthscale: Lengthscale = 1.0, offset: float = 1.0, outputscale: float = 1.0
    ) -> None:
        super().__init__(lengthscale=lengthscale, outputscale=outputscale)
        given: Any = degree
        if isinstance(given, float) and given.is_integer():
            given = int(given)
        require_whole("degree", given, 1, MAX_DEGREE)
        object.__setattr__(self, "degree", int(given))
        object.__setattr__(self, "offset", positive("offset", offset))

    @property
    def form(self) -> str:  # type: ignore[override]
        return f"power<{self.degree}>"

    @property
    def power(self) -> int:  # type: ignore[override]
        return self.degree

    def embed(self, x: Tensor, centre: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        offset = values["offset"].to(x.device).sqrt().expand(len(x), 1)
        return torch.cat([super().embed(x, centre, values), offset], 1)

    def correlation_(self, u: Tensor, spare: Tensor) -> Tensor:
        return u.pow_(self.degree)

    def slope(self, u: Tensor) -> Tensor:
        return self.degree * u.pow(self.degree - 1)


@dataclass(frozen=True, init=False, repr=False)
class Constant(Leaf, InnerProduct):
    """Constant: the same covariance for all points, as of an unknown constant mean.

    Args:
        outputscale: its positive value.

    Raises:
        ValueError: a value that is not finite and positive.

    Examples:
        >>> import torch, apviz
        >>> apviz.Constant(outputscale=2.0)(torch.zeros(2, 1))
        tensor([[2., 2.],
                [2., 2.]])
    """

    def __init__(self, *, outputscale: float = 1.0) -> None:
        object.__setattr__(self, "outputscale", positive("outputscale", outputscale))

    def embed(self, x: Tensor, centre: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        return torch.ones_like(x[:, :1])

    def rescaled(self, centre: Sequence[float], unit: Sequence[float]) -> Kernel:
        return self if self._has_embedding_of(Constant) else super().rescaled(centre, unit)


@dataclass(frozen=True, init=False, repr=False)
class Groups(Leaf, InnerProduct):
    """A table of covariances between groups: B[x, z] of one column of whole numbers, B = FFᵀ + diag(v).

    A product of it with a kernel of the other columns is the intrinsic model of coregionalisation, GPyTorch's Hadamard
    multitask model (Bonilla, Chai & Williams, NeurIPS 2007).

    Args:
        factor: F, (groups, rank).
        variances: v ≥ 0, one a group.
        outputscale: a positive factor.

    Raises:
        ValueError: shapes that do not match, numbers that are not finite, variances below 0; when it is used, several
            columns, or a group that does not exist.

    Examples:
        >>> import torch, apviz
        >>> kernel = apviz.Groups(factor=[[1.0], [2.0]], variances=[0.5, 0.0])
        >>> kernel(torch.tensor([[0.0], [1.0], [0.0]], dtype=torch.float64))
        tensor([[1.5000, 2.0000, 1.5000],
                [2.0000, 4.0000, 2.0000],
                [1.5000, 2.0000, 1.5000]], dtype=torch.float64)
    """

    factor: tuple[float, ...]
    variances: tuple[float, ...]

    def __init__(self, *, factor: Any, variances: Sequence[float], outputscale: float = 1.0) -> None:
        v = numbers_of("variances", variances).flatten()
        f = numbers_of("factor", factor).flatten()
        if not len(v) or len(f) % len(v):
            raise ValueError(f"factor must have a row for each of the {len(v)} variances, got {len(f)} numbers")
        if not (v.isfinite().all() and f.isfinite().all() and (v >= 0).all()):
            raise ValueError("factor and variances must be finite, and variances at least 0")
        object.__setattr__(self, "factor", tuple(f.tolist()))
        object.__setattr__(self, "variances", tuple(v.tolist()))
        object.__setattr__(self, "outputscale", positive("outputscale", outputscale))

    @property
    def of_any_sign(self) -> frozenset[str]:
        return frozenset({"factor"})

    def function(self, d: int) -> Leaf:
        if d != 1:
            raise ValueError(f"Groups takes one column, got {d}; choose it, as Groups(...).on(0)")
        return self

    def embed(self, x: Tensor, centre: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        variances, group = values["variances"].to(x.device), x[:, 0].long()
        groups = len(variances)
        bad = (group != x[:, 0]) | (group < 0) | (group >= groups)
        if bad.any():
            raise ValueError(f"groups must be whole numbers from 0 to {groups - 1}, got {float(x[bad][0, 0]):g}")
        factor = values["factor"].to(x.device).reshape(groups, -1)
        # where a variance is 0, so is its root's derivative
        roots = torch.where(variances > 0, variances.clamp(min=torch.finfo(torch.float64).tiny).sqrt(), 0.0)
        return torch.cat([factor, torch.diag(roots)], 1)[group]
