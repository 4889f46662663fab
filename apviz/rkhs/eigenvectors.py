"""The error of a walk, split by the eigenvectors of K: what CG and alternating projection remove first."""

from __future__ import annotations

from dataclasses import dataclass

from apviz.rkhs.eigen_path import eigen_path
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
    path = eigen_path(walk)
    return Spectrum(path.eigenvalues, path.error, path.residual)
