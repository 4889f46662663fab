"""Eigenvalues of K and of its blocks, all and exact, and what Theorem 1 makes of them beside what a solve did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from apviz.analysis.errors import theorem_1
from apviz.partitions import partitioner_named
from apviz.rkhs.span import Floats, Span
from apviz.rkhs.trajectory import Trajectory, trajectory
from apviz.settings import require, require_whole


@dataclass(frozen=True, eq=False)
class BlockSpectrum:
    """Eigenvalues of K and of its blocks, from dense float64 matrices.

    Args:
        eigenvalues: (n,) of K, largest first.
        blocks: (b,) of every K[I, I], largest first. By Cauchy's interlacing the i-th is at most the i-th of K.
        coupling: λmin(D⁻¹K) where D holds the blocks K[I, I] alone: 1 if they do not touch, near 0 if they nearly
            share a function.
    """

    eigenvalues: Floats
    blocks: tuple[Floats, ...]
    coupling: float

    @property
    def lambda_max_block(self) -> float:
        """Largest eigenvalue λ′max of any block."""
        return float(max(block[0] for block in self.blocks))

    @property
    def kappa(self) -> float:
        """Condition number κ = λmax/λmin."""
        return float(self.eigenvalues[0] / self.eigenvalues[-1])

    @property
    def kappa_prime(self) -> float:
        """Rate κ′ = λ′max/λmin of Theorem 1."""
        return float(self.lambda_max_block / self.eigenvalues[-1])

    @property
    def kappa_coupled(self) -> float:
        """Rate 1/λmin(D⁻¹K) ≤ κ′ that knows the couplings, for the rule that takes the block removing the most.

        From mean over blocks of ½r_IᵀK[I, I]⁻¹r_I = rᵀD⁻¹r/(2m) ≥ λmin(D⁻¹K)·½‖r‖²_H/m, which no maximum is below;
        for random it holds in expectation (Gower & Richtárik 2015, randomized Newton).
        """
        return 1.0 / self.coupling


def block_spectrum(span: Span, blocks: Sequence[Sequence[int]]) -> BlockSpectrum:
    """Computes the eigenvalues of K and of its blocks.

    Args:
        blocks: disjoint sets of points that cover all.

    Examples:
        >>> span = apviz.rkhs.Span(np.linspace(0, 1, 24), apviz.Matern52(lengthscale=0.2), noise=0.01)
        >>> found = apviz.rkhs.block_spectrum(span, apviz.rkhs.blocks_of(span, 6, "sequential"))
        >>> round(found.kappa), round(found.kappa_prime), round(found.kappa_coupled)
        (934, 494, 51)
    """
    require(isinstance(blocks, Sequence) and len(blocks) > 0, "blocks", blocks, "sets of points")
    inverse_factor = np.zeros_like(span.gram)
    own: list[Floats] = []
    for rows in (span.rows(block, "blocks") for block in blocks):
        part = span.gram[np.ix_(rows, rows)]
        own.append(_descending(part))
        # L⁻¹ of every block, which is a block of that of D
        inverse_factor[np.ix_(rows, rows)] = np.linalg.inv(np.linalg.cholesky(part))
    scaled = inverse_factor @ span.gram @ inverse_factor.T
    return BlockSpectrum(_descending(span.gram), tuple(own), float(_descending(scaled)[-1]))


def _descending(matrix: Floats) -> Floats:
    """Eigenvalues, largest first."""
    return np.asarray(np.linalg.eigvalsh(matrix)[::-1], dtype=np.float64)


def blocks_of(span: Span, block_size: int, partition: str) -> tuple[tuple[int, ...], ...]:
    """Points of every block of a partition by name, as a solve of the same settings has them.

    Args:
        block_size: points a block owns.
        partition: sequential, shuffled, kd-tree or principal-axis-tree.

    Raises:
        ValueError: an unknown partition.

    Examples:
        Neighbours share a block of a k-d tree, wherever they stand among the rows:

        >>> span = apviz.rkhs.Span([0.1, 0.9, 0.2, 0.8], apviz.Matern52(lengthscale=0.2), noise=0.1)
        >>> apviz.rkhs.blocks_of(span, 2, "sequential"), apviz.rkhs.blocks_of(span, 2, "kd-tree")
        (((0, 1), (2, 3)), ((0, 2), (3, 1)))
    """
    require_whole("block_size", block_size, 1)
    found = partitioner_named(partition)(span.kernel.features(torch.as_tensor(span.x)), block_size, 0.0)
    return tuple(tuple(found.order[found.owned(block)].tolist()) for block in range(len(found)))


def lambda_max_by_size(span: Span, sizes: Sequence[int], partition: str) -> Floats:
    """Largest eigenvalues (len(sizes),) λ′max of any block, for partitions into blocks of so many points.

    Raises:
        ValueError: an unknown partition.

    Examples:
        >>> span = apviz.rkhs.Span(np.linspace(0, 1, 24), apviz.Matern52(lengthscale=0.2), noise=0.01)
        >>> apviz.rkhs.lambda_max_by_size(span, [1, 6, 24], "sequential").round(2)
        array([1.01, 5.08, 9.61])
    """
    require(np.ndim(sizes) == 1 and len(sizes) > 0, "sizes", sizes, "numbers of points, at least one")
    return np.array(
        [
            max(np.linalg.eigvalsh(span.gram[np.ix_(rows, rows)])[-1] for rows in blocks_of(span, size, partition))
            for size in sizes
        ]
    )


@dataclass(frozen=True, eq=False)
class BoundComparison:
    """Solve by gauss-southwell over one partition, beside what Theorem 1 promises of it.

    Args:
        trajectory: of the solve.
        spectrum: of K and its blocks.
        epochs: (steps + 1,) updates ÷ m.
        errors: (steps + 1,) ‖W−W*‖²_K as a share of that before the first update; from W*, and exact to rounding.
        bound: (steps + 1,) exp(−t/κ′).
    """

    trajectory: Trajectory
    spectrum: BlockSpectrum
    epochs: Floats
    errors: Floats
    bound: Floats

    def epochs_to(self, share: float) -> float:
        """Number of epochs until ‖W−W*‖²_K is at most this share of what it was; infinite where it never is."""
        there = np.flatnonzero(self.errors <= share)
        return float(self.epochs[there[0]]) if len(there) else math.inf

    def bound_epochs_to(self, share: float) -> float:
        """Number of epochs κ′ ln(1/share) after which Theorem 1 promises it."""
        return self.spectrum.kappa_prime * math.log(1 / share)


def compare_with_bound(span: Span, b: Floats, *, block_size: int, partition: str, epochs: int) -> BoundComparison:
    """Solves Kw = b with gauss-southwell, and computes the bound of Theorem 1 from all eigenvalues.

    Args:
        b: (n,) data at the points.
        block_size, partition: of `apviz.AlternatingProjection`.
        epochs: of m updates each; fewer where the solve is at its goal before.

    Raises:
        ValueError: a setting the solver refuses.

    Examples:
        >>> span = apviz.rkhs.Span(np.linspace(0, 1, 24), apviz.Matern52(lengthscale=0.2), noise=1.0)
        >>> b = np.sin(9 * span.x[:, 0])
        >>> found = apviz.rkhs.compare_with_bound(span, b, block_size=6, partition="sequential", epochs=10)
        >>> round(found.epochs_to(0.01), 2), round(found.bound_epochs_to(0.01), 1)
        (1.25, 28.0)
    """
    require_whole("block_size", block_size, 1)
    require_whole("epochs", epochs, 1)
    count = -(-span.n // block_size)
    found = trajectory(span, b, block_size=block_size, partition=partition, steps=epochs * count)
    spectrum = block_spectrum(span, found.blocks)
    errors = found.errors()
    at = np.arange(len(errors)) / len(found.blocks)
    return BoundComparison(found, spectrum, at, (errors / errors[0]) ** 2, theorem_1(at, spectrum.kappa_prime))
