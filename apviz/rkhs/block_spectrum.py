"""Eigenvalues of K and of its blocks, and the bound of Theorem 1 next to the error of a solve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apviz.rkhs.blocks import blocks_of
from apviz.rkhs.kernels import Floats
from apviz.rkhs.span import Span
from apviz.rkhs.trajectory import Trajectory, trajectory
from apviz.settings import require, require_whole


@dataclass(frozen=True, eq=False)
class BlockSpectrum:
    """Eigenvalues of K and of its blocks, from dense float64 matrices.

    Args:
        eigenvalues: (n,) of K, largest first.
        blocks: (b,) of every K[I, I], largest first. By Cauchy's interlacing the i-th is at most the i-th of K.
        coupling: λmin(D⁻¹K) where D holds the blocks K[I, I] alone: 1 if the blocks are orthogonal, near 0 if their
            spans nearly share a function.
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
        """Rate 1/λmin(D⁻¹K) ≤ κ′ of the rule that takes the block with the largest decrease.

        The largest decrease is at least the mean, ½r_IᵀK[I, I]⁻¹r_I over blocks = rᵀD⁻¹r/(2m) ≥ λmin(D⁻¹K)·½‖r‖²_H/m;
        for random it holds in expectation (Gower & Richtárik 2015, randomized Newton).
        """
        return 1.0 / self.coupling


def block_spectrum(span: Span, blocks: Sequence[Sequence[int]]) -> BlockSpectrum:
    """Compute the eigenvalues of K and of its blocks.

    Args:
        blocks: disjoint sets that hold all points.

    Raises:
        ValueError: no block, or a block with a point that does not exist.

    Examples:
        >>> span = apviz.rkhs.Span(np.linspace(0, 1, 24), apviz.Matern52(lengthscale=0.2), noise=0.01)
        >>> found = apviz.rkhs.block_spectrum(span, apviz.rkhs.blocks_of(span, 6, "sequential"))
        >>> round(found.kappa), round(found.kappa_prime), round(found.kappa_coupled)
        (934, 494, 51)
    """
    require(isinstance(blocks, Sequence) and len(blocks) > 0, "blocks", blocks, "sets of points")
    inverse_factor = np.zeros_like(span.gram)  # of D, block by block
    own: list[Floats] = []
    for rows in (span.rows(block, "blocks") for block in blocks):
        part = span.gram[np.ix_(rows, rows)]
        own.append(_descending(part))
        inverse_factor[np.ix_(rows, rows)] = np.linalg.inv(np.linalg.cholesky(part))
    scaled = inverse_factor @ span.gram @ inverse_factor.T
    return BlockSpectrum(_descending(span.gram), tuple(own), float(_descending(scaled)[-1]))


def _descending(matrix: Floats) -> Floats:
    """Compute the eigenvalues, largest first."""
    return np.asarray(np.linalg.eigvalsh(matrix)[::-1], dtype=np.float64)


def lambda_max_by_size(span: Span, sizes: Sequence[int], partition: str) -> Floats:
    """Compute λ′max, the largest eigenvalue of any block, for every block size: (len(sizes),).

    Raises:
        ValueError: no block size, one below 1, or an unknown partition.

    Examples:
        >>> span = apviz.rkhs.Span(np.linspace(0, 1, 24), apviz.Matern52(lengthscale=0.2), noise=0.01)
        >>> apviz.rkhs.lambda_max_by_size(span, [1, 6, 24], "sequential").round(2)
        array([1.01, 5.08, 9.61])
    """
    require(np.ndim(sizes) == 1 and len(sizes) > 0, "sizes", sizes, "block sizes, at least one")
    return np.array(
        [
            max(np.linalg.eigvalsh(span.gram[np.ix_(rows, rows)])[-1] for rows in blocks_of(span, size, partition))
            for size in sizes
        ]
    )


@dataclass(frozen=True, eq=False)
class BoundComparison:
    """Error of a solve by gauss-southwell over one partition, next to the bound of Theorem 1.

    Args:
        trajectory: of the solve.
        spectrum: of K and its blocks.
        epochs: (steps + 1,) updates ÷ m.
        errors: (steps + 1,) ‖W−W*‖²_K as a share of that before the first update, computed from W*.
        bound: (steps + 1,) exp(−t/κ′).
    """

    trajectory: Trajectory
    spectrum: BlockSpectrum
    epochs: Floats
    errors: Floats
    bound: Floats

    def epochs_to(self, share: float) -> float:
        """Return the epochs until ‖W−W*‖²_K is at most this share of its start; infinity if it never is."""
        reached = np.flatnonzero(self.errors <= share)
        return float(self.epochs[reached[0]]) if len(reached) else math.inf

    def bound_epochs_to(self, share: float) -> float:
        """Return the epochs κ′ ln(1/share) after which Theorem 1 guarantees this share."""
        return self.spectrum.kappa_prime * math.log(1 / share)


def compare_with_bound(span: Span, b: Floats, *, block_size: int, partition: str, epochs: int) -> BoundComparison:
    """Solve Kw = b with gauss-southwell, and compute the bound of Theorem 1 from all eigenvalues.

    Args:
        b: (n,) data at the points.
        block_size, partition: of `blocks_of`.
        epochs: number of epochs of m updates; fewer if the residual reaches rounding earlier.

    Raises:
        ValueError: a block size or a number of epochs below 1, an unknown partition, or b of another shape.

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
    return BoundComparison(found, spectrum, at, (errors / errors[0]) ** 2, np.exp(-at / spectrum.kappa_prime))
