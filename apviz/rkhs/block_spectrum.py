"""The eigenvalues of K and of its blocks, all of them and exact: κ, κ′, and the rate that knows the couplings.

Theorem 1 beside what a solve did: the bound exp(−t/κ′) and the measured ‖W−W*‖²_K.
"""

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


@dataclass(frozen=True, eq=False)
class BlockSpectrum:
    """Eigenvalues from dense float64 matrices.

    Args:
        eigenvalues: (n,) of K, largest first.
        blocks: of every K[I, I], largest first. By Cauchy's interlacing the i-th is at most the i-th of K.
        coupling: λmin(D⁻¹K) where D holds the blocks K[I, I] alone: 1 if they do not touch, near 0 if they nearly
            share a function.
    """

    eigenvalues: Floats
    blocks: tuple[Floats, ...]
    coupling: float

    @property
    def lambda_max_block(self) -> float:
        """λ′max, the largest eigenvalue of any block."""
        return float(max(block[0] for block in self.blocks))

    @property
    def kappa(self) -> float:
        """κ = λmax/λmin."""
        return float(self.eigenvalues[0] / self.eigenvalues[-1])

    @property
    def kappa_prime(self) -> float:
        """κ′ = λ′max/λmin, the rate of Theorem 1."""
        return float(self.lambda_max_block / self.eigenvalues[-1])

    @property
    def kappa_coupled(self) -> float:
        """1/λmin(D⁻¹K), at most κ′: what stands in place of κ′ for the rule that takes the block removing the most.

        From mean over blocks of ½r_IᵀK[I, I]⁻¹r_I = rᵀD⁻¹r/(2m) ≥ λmin(D⁻¹K)·½‖r‖²_H/m, which no maximum is below;
        for random it holds in expectation (Gower & Richtárik 2015, randomized Newton).
        """
        return 1.0 / self.coupling


def block_spectrum(span: Span, blocks: Sequence[Sequence[int]]) -> BlockSpectrum:
    """The eigenvalues of K and of its blocks.

    Args:
        blocks: disjoint sets of points that cover all.
    """
    together = np.zeros_like(span.gram)
    own: list[Floats] = []
    for rows in map(list, blocks):
        part = span.gram[np.ix_(rows, rows)]
        own.append(_falling(part))
        # L⁻¹ of every block, which is a block of that of D
        together[np.ix_(rows, rows)] = np.linalg.inv(np.linalg.cholesky(part))
    scaled = together @ span.gram @ together.T
    return BlockSpectrum(_falling(span.gram), tuple(own), float(_falling(scaled)[-1]))


def _falling(matrix: Floats) -> Floats:
    """Eigenvalues, largest first."""
    return np.asarray(np.linalg.eigvalsh(matrix)[::-1], dtype=np.float64)


def blocks_of(span: Span, block_size: int, partition: str) -> tuple[tuple[int, ...], ...]:
    """The points of every block of a partition by name, as a solve of the same settings has them.

    Raises:
        ValueError: an unknown partition.
    """
    found = partitioner_named(partition)(span.kernel.scale(torch.as_tensor(span.x)), block_size, 0.0)
    return tuple(tuple(found.order[found.owned(block)].tolist()) for block in range(len(found)))


def lambda_max_by_size(span: Span, sizes: Sequence[int], partition: str) -> Floats:
    """(len(sizes),) λ′max of a partition into blocks of so many points."""
    return np.array(
        [
            max(np.linalg.eigvalsh(span.gram[np.ix_(rows, rows)])[-1] for rows in blocks_of(span, size, partition))
            for size in sizes
        ]
    )


@dataclass(frozen=True, eq=False)
class BoundComparison:
    """A solve by gauss-southwell over one partition.

    Args:
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
        """Epochs until ‖W−W*‖²_K is at most this share of what it was; infinite where it never was."""
        there = np.flatnonzero(self.errors <= share)
        return float(self.epochs[there[0]]) if len(there) else math.inf

    def bound_epochs_to(self, share: float) -> float:
        """Epochs after which Theorem 1 promises it."""
        return self.spectrum.kappa_prime * math.log(1 / share)


def compare_with_bound(span: Span, b: Floats, *, block_size: int, partition: str, epochs: int) -> BoundComparison:
    """Solves Kw = b with gauss-southwell, and computes all eigenvalues.

    Args:
        b: (n,) data at the points.
        epochs: of m updates each; fewer where the solve is at its goal before.

    Raises:
        ValueError: a setting the solver refuses.
    """
    count = -(-span.n // block_size)
    found = trajectory(span, b, block_size=block_size, partition=partition, steps=epochs * count)
    spectrum = block_spectrum(span, found.blocks)
    errors = found.errors()
    at = np.arange(len(errors)) / len(found.blocks)
    return BoundComparison(found, spectrum, at, (errors / errors[0]) ** 2, theorem_1(at, spectrum.kappa_prime))
