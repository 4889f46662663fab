"""Trajectories along the eigenvectors of K: which components CG and alternating projection remove first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from apviz.rkhs.kernels import Floats, require_one_of
from apviz.rkhs.trajectory import Trajectory
from apviz.settings import require

Plane = Literal[
    "largest λ and most error", "the two with most error", "the two with most residual", "largest and smallest λ"
]


@dataclass(frozen=True, eq=False)
class EigenPath:
    """Error s⁽ʲ⁾ − g of every step in orthonormal coordinates of H.

    With Kvᵢ = λᵢvᵢ the functions φᵢ = Σⱼ (vᵢ)ⱼ k(xⱼ, ·)/√λᵢ are orthonormal, and the error w − w* has the coordinate
    cᵢ = √λᵢ vᵢᵀ(w − w*) along φᵢ. So ‖W−W*‖²_K = Σcᵢ², and since r = −K(w − w*), ‖r‖² = Σλᵢcᵢ².

    Args:
        trajectory: with the states.
        eigenvalues: (n,) of K, largest first.
        coordinates: (steps, n) cᵢ; the sign of vᵢ is such that every path starts at cᵢ ≥ 0.
        work: (steps,) kernel entries ÷ n² up to and including each step: the factors of the blocks and the columns
            of every update, or one product with K an iteration of CG. The first residual is b, and costs nothing.
    """

    trajectory: Trajectory
    eigenvalues: Floats
    coordinates: Floats
    work: Floats

    @property
    def error(self) -> Floats:
        """Shares (steps, n) cᵢ² of the eigenvectors, whose sum is ‖W−W*‖²_K."""
        return np.asarray(self.coordinates**2)

    @property
    def residual(self) -> Floats:
        """Shares (steps, n) λᵢcᵢ² of the eigenvectors, whose sum is ‖r‖²."""
        return np.asarray(self.eigenvalues * self.coordinates**2)

    @property
    def kappa(self) -> float:
        """Condition number λmax(K)/λmin(K)."""
        return float(self.eigenvalues[0] / self.eigenvalues[-1])

    def kappa_prime(self) -> float:
        """Compute the largest λmax(K[I, I]) over λmin(K) (paper, Theorem 1); κ for CG, whose only block is K."""
        gram = self.trajectory.span.gram
        largest = [np.linalg.eigvalsh(gram[np.ix_(rows, rows)])[-1] for rows in map(list, self.trajectory.blocks)]
        return float(max(largest) / self.eigenvalues[-1]) if largest else self.kappa

    def epochs(self) -> Floats:
        """Compute the epochs (steps,): updates ÷ blocks, or iterations of CG."""
        return np.arange(len(self.trajectory.steps)) / max(1, len(self.trajectory.blocks))

    def bound(self) -> Floats:
        """Compute the factor (steps,) on ‖W−W*‖²_K that theory guarantees after every step.

        It is 4((√κ−1)/(√κ+1))²ᵗ for CG (paper, section 4), exp(−t/κ′) for gauss-southwell (Theorem 1), and NaN for
        other rules, whose bounds do not hold in every step. A block with a margin removes at least as much as the block
        without it.
        """
        root = np.sqrt(self.kappa)
        if not self.trajectory.blocks:
            return np.asarray(4 * ((root - 1) / (root + 1)) ** (2 * self.epochs()))
        if self.trajectory.method.rule == "gauss-southwell":
            return np.asarray(np.exp(-self.epochs() / self.kappa_prime()))
        return np.full(len(self.work), np.nan)

    def at(self, work: float) -> int:
        """Return the number of the last step within this work; −1 for none."""
        return int(np.searchsorted(self.work, work * (1 + 1e-12), side="right")) - 1

    def first_cg_step(self) -> float:
        """Compute the ratio ‖r⁽¹⁾‖²/‖r⁽⁰⁾‖² of CG: m₂/m₁² − 1, with the moments m of λ weighted by the shares of b.

        The first step is that of steepest descent, r⁽¹⁾ = r⁽⁰⁾ − αKr⁽⁰⁾ with α = 1/m₁. Above 1 the residual rises: the
        standard deviation of λ then exceeds its mean.
        """
        share = self.residual[0] / self.residual[0].sum()
        first, second = share @ self.eigenvalues, share @ self.eigenvalues**2
        return float(second / first**2 - 1)


def eigen_path(trajectory: Trajectory) -> EigenPath:
    """Compute the path of a trajectory along the eigenvectors of its K.

    Examples:
        The first step of CG lowers the error, and may raise the residual:

        >>> span = apviz.rkhs.Span(np.linspace(0, 1, 40), apviz.Matern52(lengthscale=0.15), noise=0.05)
        >>> b = np.random.default_rng(0).standard_normal(40)
        >>> path = apviz.rkhs.eigen_path(apviz.rkhs.trajectory(span, b, method="cg", steps=1))
        >>> before, after = path.error.sum(axis=1)
        >>> bool(after < before), path.first_cg_step() > 1
        (True, True)
    """
    values, vectors = np.linalg.eigh(trajectory.span.gram)
    values, vectors = values[::-1], vectors[:, ::-1]
    gaps = np.array([step.weights for step in trajectory.steps]) - trajectory.goal
    coordinates = np.sqrt(values.clip(0.0)) * (gaps @ vectors)
    coordinates = coordinates * np.where(coordinates[0] < 0, -1.0, 1.0)
    n, sizes = trajectory.span.n, np.array([len(rows) for rows in trajectory.blocks])
    if len(sizes):
        steps = [0, *(sizes[step.block] / n for step in trajectory.steps[1:])]
        work = (sizes**2).sum() / n**2 + np.cumsum(steps)
    else:
        work = np.arange(len(trajectory.steps), dtype=float)
    return EigenPath(trajectory, values, coordinates, work)


def eigenvector_pair(path: EigenPath, plane: Plane) -> tuple[int, int]:
    """Find the two eigenvectors of a plane, by number, the larger λ first, from the state before the first step.

    Raises:
        ValueError: an unknown plane, or a single point.

    Examples:
        >>> span = apviz.rkhs.Span(np.linspace(0, 1, 6), apviz.Matern52(lengthscale=0.25), noise=0.01)
        >>> found = apviz.rkhs.trajectory(span, np.sin(9 * span.x[:, 0]), steps=3)
        >>> apviz.rkhs.eigenvector_pair(apviz.rkhs.eigen_path(found), "largest and smallest λ")
        (0, 5)
    """
    require_one_of(plane, "plane", get_args(Plane))
    n = len(path.eigenvalues)
    require(n > 1, "n", n, "at least 2, for a plane")
    if plane == "largest and smallest λ":
        return 0, n - 1
    if plane == "largest λ and most error":
        return 0, 1 + int(path.error[0][1:].argmax())
    share = path.error[0] if plane == "the two with most error" else path.residual[0]
    first, second = sorted(np.argsort(share)[-2:].tolist())
    return int(first), int(second)
