"""Derivatives of products with K in the hyperparameters of the kernel, the noise and the inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from apviz.kernels import Formula, Gradients, Kernel, pairwise_distances
from apviz.kernels.formula import Lowered
from apviz.memory import require_memory
from apviz.settings import without_tf32

#: rows and columns of a tile of derivatives; about five tiles per part of the kernel are in memory at a time
DERIVATIVE_TILE = 1024
#: numbers that autograd keeps per difference of features for second derivatives
GRAPH = 8


class KernelDerivatives(NamedTuple):
    """The derivatives tr(Aᵀ (∂K/∂θ) B), float64.

    kernel: for each hyperparameter θ of the kernel, by name, (numbers,); noise: for σ², 0-d, or (n,) if every row has
    its own; inputs: (n, d), for the rows, if requested.
    """

    kernel: dict[str, Tensor]
    noise: Tensor
    inputs: Tensor | None = None


class CrossDerivatives(NamedTuple):
    """The derivatives of Σᵢⱼ Mᵢⱼ k(zᵢ, xⱼ), float64, in hyperparameters by name, z (m, d) and x (n, d)."""

    kernel: dict[str, Tensor]
    z: Tensor
    inputs: Tensor


class Derivatives(ABC):
    """Derivatives of an operator, whose attributes these are; an engine may have a faster `_gradients`."""

    given: Tensor
    kernel: Kernel
    noises: Tensor | None
    x: Tensor
    inputs: Tensor
    formula: Formula
    _centre: Tensor
    _lowered: Lowered

    @property
    @abstractmethod
    def n(self) -> int:
        """The number of rows."""

    @abstractmethod
    def scaled(self, z: Tensor) -> Tensor:
        """Compute the features of inputs z: (m, d), scaled like `inputs`."""

    @abstractmethod
    def _check(self, u: Tensor, rows: int, name: str, r: Tensor | None = None) -> None:
        """Check shapes, dtypes and devices."""

    @without_tf32()
    def differentiable_columns(self, z: Tensor) -> Tensor:
        """Evaluate k(X, z), without noise, (n, m) in float64, twice differentiable by autograd in z: (m, d)."""
        needed = 8.0 * GRAPH * self.n * len(z) * self.inputs.shape[1]
        require_memory(needed, self.inputs.device, f"second derivatives at {len(z)} points need", "take fewer at once")
        return self.formula.differentiable(self.inputs.double(), self._differentiable_features(z))

    def differentiable_prior(self, z: Tensor) -> Tensor:
        """Evaluate k(z, z) in the same way, (m, m)."""
        at_z = self._differentiable_features(z)
        return self.formula.differentiable(at_z, at_z)

    def _differentiable_features(self, z: Tensor) -> Tensor:
        return torch.cat(self._lowered.features(z.to(self.x.device), self._centre), 1)

    @without_tf32()
    def bilinear_derivatives(self, a: Tensor, b: Tensor, with_inputs: bool = False) -> KernelDerivatives:
        """Compute tr(Aᵀ (∂K/∂θ) B) for a, b: (n, p), θ the kernel's hyperparameters and σ². Evaluates n² entries.

        Args:
            with_inputs: also return derivatives in the inputs.
        """
        self._check(a, self.n, "a")
        self._check(b, self.n, "b")
        if a.shape != b.shape:
            raise ValueError(f"a and b must have the same shape, got {tuple(a.shape)} and {tuple(b.shape)}")
        found = self._bilinear_gradients(a, b, with_inputs)
        return self._derivatives(found, torch.sum(a * b, 1, dtype=torch.float64), with_inputs)

    def _bilinear_gradients(self, a: Tensor, b: Tensor, with_inputs: bool) -> Gradients:
        """Differentiate Σᵢⱼ (aᵢᵀbⱼ) k(xᵢ, xⱼ) in the features, which are on both sides of k.

        Args:
            with_inputs: whether the features' gradients are used row by row, or for hyperparameters alone.
        """
        return self._gradients(self.inputs, self.inputs, torch.cat([a, b], 1), torch.cat([b, a], 1))

    @without_tf32()
    def weighted_derivatives(self, m: Tensor, with_inputs: bool = False) -> KernelDerivatives:
        """Compute tr(Mᵀ ∂K/∂θ) for m: (n, n), as `bilinear_derivatives` does for M = ABᵀ. Evaluates n² entries."""
        if m.shape != (self.n, self.n):
            raise ValueError(f"m must have shape ({self.n}, {self.n}), got {tuple(m.shape)}")
        return self._derivatives(self._weighted_gradients(m), m.diagonal().double(), with_inputs)

    @without_tf32()
    def cross_derivatives(self, z: Tensor, a: Tensor, b: Tensor) -> CrossDerivatives:
        """Differentiate Σᵢⱼ (aᵢᵀbⱼ) k(zᵢ, xⱼ), without noise: z (m, d), a (m, p), b (n, p). Evaluates 2mn entries."""
        self._check(b, self.n, "b")
        at_z = self.scaled(z)
        of_z, of_x = self._gradients(at_z, self.inputs, a, b), self._gradients(self.inputs, at_z, b, a)
        by_name, (by_z, by_x) = self._chained(
            [(z, of_z.features), (self.given, of_x.features)], of_z, 1.0, with_inputs=True
        )
        return CrossDerivatives(by_name, by_z, by_x)

    def prior_derivatives(self, z: Tensor, m: Tensor) -> CrossDerivatives:
        """Differentiate Σᵢⱼ Mᵢⱼ k(zᵢ, zⱼ), without noise, in z: (q, d) and the hyperparameters; m (q, q)."""
        at_z = self.scaled(z)
        found = self.formula.gradients(at_z, at_z, m + m.T, pairwise_distances)
        by_name, (by_z,) = self._chained([(z, found.features)], found, 0.5, with_inputs=True)
        return CrossDerivatives(by_name, by_z, torch.zeros_like(self.given, dtype=torch.float64))

    def _derivatives(self, found: Gradients, noise: Tensor, with_inputs: bool) -> KernelDerivatives:
        """Return derivatives in hyperparameters from gradients that sum both sides; noise: (n,), of every row."""
        # the gradients contain shapes and weights twice, once per side
        by_name, by_inputs = self._chained([(self.given, found.features)], found, 0.5, with_inputs)
        return KernelDerivatives(by_name, noise.sum() if self.noises is None else noise, *by_inputs)

    def _chained(
        self, of_features: Sequence[tuple[Tensor, Tensor]], found: Gradients, factor: float, with_inputs: bool
    ) -> tuple[dict[str, Tensor], list[Tensor]]:
        """Apply the chain rule: derivatives in hyperparameters and inputs, from those in features and numbers."""
        with torch.enable_grad():
            at = {
                name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
                for name, value in self.kernel.hyperparameters.items()
            }
            lowered = self.kernel.lowered(self.given.shape[1], at)
            scalars = torch.stack([*(part.shape for part in lowered.parts), *lowered.weights])
            numbers = torch.cat([scalars, *(part.numbers for part in lowered.parts)]).to(found.shapes)
            total = factor * numbers @ torch.cat([found.shapes, found.weights, found.numbers])
            inputs = [given.double().clone().requires_grad_(with_inputs) for given, _ in of_features]
            for given, (_, gradient) in zip(inputs, of_features, strict=True):
                total = total + torch.sum(torch.cat(lowered.features(given, self._centre), 1) * gradient)
            wanted = [*at.values(), *(inputs if with_inputs else [])]
            gradients = list(torch.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True))
        by_name = {name: gradient.flatten() for name, gradient in zip(at, gradients, strict=False)}
        return by_name, gradients[len(at) :]

    def _gradients(self, rows: Tensor, columns: Tensor, a: Tensor, b: Tensor) -> Gradients:
        """Differentiate Σᵢⱼ (aᵢᵀbⱼ) k(rowsᵢ, columnsⱼ) in the features of rows (r, D); a (r, p), columns (c, D).

        If rows are the columns, ABᵀ is symmetric.
        """
        return self._tiled_gradients(rows, columns, lambda of_rows, of_columns: a[of_rows] @ b[of_columns].T)

    def _weighted_gradients(self, m: Tensor) -> Gradients:
        """Differentiate Σᵢⱼ (Mᵢⱼ + Mⱼᵢ) k(xᵢ, xⱼ) in the features of the first side, M: (n, n)."""
        x = self.inputs
        return self._tiled_gradients(x, x, lambda rows, columns: m[rows, columns] + m[columns, rows].T)

    def _tiled_gradients(self, rows: Tensor, columns: Tensor, tile_of_m: Callable[[slice, slice], Tensor]) -> Gradients:
        """Differentiate in the same way for any M, symmetric if rows are the columns, tile by tile."""
        numbers = sum(len(part.numbers) for part in self._lowered.parts)
        shapes = (tuple(rows.shape), (len(self.formula.functions),), (len(self.formula.terms),), (numbers,))
        found = Gradients(*(torch.zeros(shape, dtype=torch.float64, device=rows.device) for shape in shapes))
        for i in range(0, len(rows), DERIVATIVE_TILE):
            for j in range(0, len(columns), DERIVATIVE_TILE):
                r, c = slice(i, i + DERIVATIVE_TILE), slice(j, j + DERIVATIVE_TILE)
                left = rows[r]
                # pass the same tensor for the same rows: some kernels test whether both sides are equal
                right = left if rows is columns and i == j else columns[c]
                tile = self.formula.gradients(left, right, tile_of_m(r, c), pairwise_distances)
                found.features[r] += tile.features
                found.shapes.add_(tile.shapes)
                found.weights.add_(tile.weights)
                found.numbers.add_(tile.numbers)
        return found
