"""The error of a walk, split by the eigenvectors of K: what CG and alternating projection remove first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apviz.rkhs.span import Floats
from apviz.rkhs.walk import Walk


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The error of every step by eigenvector.

    Args:
        eigenvalues: (n,) of K, largest first.
        error: (steps, n) λᵢ(vᵢᵀ(w − w*))², the share of each eigenvector in ‖W−W*‖²_K; they add up to it.
        residual: (steps, n) (vᵢᵀr)², the share in ‖r‖², which is λᵢ times the former.
    """

    eigenvalues: Floats
    error: Floats
    residual: Floats


def error_by_eigenvector(walk: Walk) -> Spectrum:
    """The shares of every eigenvector of K in the error and in the residual, at every step."""
    values, vectors = np.linalg.eigh(walk.span.gram)
    values, vectors = values[::-1], vectors[:, ::-1]
    gaps = np.array([vectors.T @ (step.weights - walk.goal) for step in walk.steps])
    error = values * gaps**2
    return Spectrum(values, error, values * error)
