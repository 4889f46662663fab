"""Theorem 1 beside what a solve did: the bound exp(−t/κ′) and the measured ‖W−W*‖²_K."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from apviz.rkhs.block_spectrum import BlockSpectrum, block_spectrum
from apviz.rkhs.span import Floats, Span
from apviz.rkhs.walk import Walk, walk
from apviz.spectrum import theorem_1


@dataclass(frozen=True, eq=False)
class Bounded:
    """A solve by gauss-southwell over one partition.

    Args:
        epochs: (steps + 1,) updates ÷ m.
        errors: (steps + 1,) ‖W−W*‖²_K as a share of that before the first update; from W*, and exact to rounding.
        bound: (steps + 1,) exp(−t/κ′).
    """

    walk: Walk
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


def bounded(span: Span, b: Floats, *, block_size: int, partition: str, epochs: int) -> Bounded:
    """Solves Kw = b with gauss-southwell, and computes all eigenvalues.

    Args:
        b: (n,) data at the points.
        epochs: of m updates each; fewer where the solve is at its goal before.

    Raises:
        ValueError: a setting the solver refuses.
    """
    count = -(-span.n // block_size)
    found = walk(span, b, block_size=block_size, partition=partition, steps=epochs * count)
    spectrum = block_spectrum(span, found.blocks)
    errors = found.errors()
    at = np.arange(len(errors)) / len(found.blocks)
    return Bounded(found, spectrum, at, (errors / errors[0]) ** 2, theorem_1(at, spectrum.kappa_prime))
