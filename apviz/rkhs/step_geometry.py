"""Geometry of one projection: the residual before and after, the projection, and the angles between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apviz.rkhs.kernels import Floats
from apviz.rkhs.trajectory import Trajectory
from apviz.settings import require

#: share of ‖g‖_H below which a residual is rounding, and has no angle
ZERO = 1e-9


@dataclass(frozen=True, eq=False)
class StepGeometry:
    """Geometry of update j of a trajectory, in orthonormal coordinates in which lengths and angles are those of H.

    Args:
        number: j; 0 is the state before the first update.
        block: the points I of the block; none for number 0.
        kernels: (n, n), row i is k(xᵢ, ·).
        residuals: (steps, n) r⁽⁰⁾ = g, r⁽¹⁾, … of the whole trajectory.
        basis: (n, b) orthonormal, of V_I = span{k(xᵢ, ·): i ∈ I}.
        kernel_angles: (n, n) between k(xᵢ, ·) and k(xⱼ, ·), radians.
        angle_before, angle_after: between r⁽ʲ⁻¹⁾, or r⁽ʲ⁾, and V_I, radians; NaN where there is no block, or r is zero.
    """

    trajectory: Trajectory
    number: int
    block: tuple[int, ...]
    kernels: Floats
    residuals: Floats
    basis: Floats
    kernel_angles: Floats
    angle_before: float
    angle_after: float

    @property
    def goal(self) -> Floats:
        """Coordinates (n,) of g."""
        return np.asarray(self.residuals[0])

    @property
    def before(self) -> Floats:
        """Coordinates (n,) of r⁽ʲ⁻¹⁾; of g for number 0."""
        return np.asarray(self.residuals[max(self.number - 1, 0)])

    @property
    def after(self) -> Floats:
        """Coordinates (n,) of r⁽ʲ⁾."""
        return np.asarray(self.residuals[self.number])

    @property
    def projection(self) -> Floats:
        """Coordinates (n,) of proj_{V_I} r⁽ʲ⁻¹⁾ = r⁽ʲ⁻¹⁾ − r⁽ʲ⁾."""
        return self.before - self.after


def step_geometry(trajectory: Trajectory, number: int) -> StepGeometry:
    """Compute the geometry of update `number` (paper, equations 5 and 6).

    Raises:
        ValueError: a number that the trajectory does not have.

    Examples:
        After an update the residual is at a right angle to the span of its block:

        >>> span = apviz.rkhs.Span([0.1, 0.4, 0.8], apviz.Matern52(lengthscale=0.5), noise=0.01)
        >>> found = apviz.rkhs.trajectory_on(span, np.array([1.0, -0.3, 0.6]), [(0, 1), (2,)], steps=1)
        >>> update = apviz.rkhs.step_geometry(found, 1)
        >>> np.degrees([update.angle_before, update.angle_after]).round(1)
        array([42.5, 90. ])
    """
    last = len(trajectory.steps) - 1
    require(0 <= number <= last, "number", number, f"from 0 to {last}, the steps of this trajectory")
    span = trajectory.span
    chosen = trajectory.steps[number].block
    block = trajectory.blocks[chosen] if chosen >= 0 else ()
    basis, _ = np.linalg.qr(span.factor[list(block)].T)
    gaps = np.array([trajectory.goal - step.weights for step in trajectory.steps])
    lengths = np.sqrt(np.diag(span.gram))
    cosines = span.gram / np.outer(lengths, lengths)
    np.fill_diagonal(cosines, 1.0)
    residuals = span.coordinates(gaps.T).T
    smallest = ZERO * float(np.linalg.norm(residuals[0]))
    return StepGeometry(
        trajectory, number, tuple(block), span.factor, residuals, basis, np.arccos(np.clip(cosines, -1.0, 1.0)),
        _angle(residuals[max(number - 1, 0)], basis, smallest), _angle(residuals[number], basis, smallest),
    )  # fmt: skip


def _angle(vector: Floats, basis: Floats, smallest: float) -> float:
    """Compute the angle between a vector and a subspace from both parts: exact near 0 and near a right angle."""
    if basis.shape[1] == 0 or np.linalg.norm(vector) <= smallest:
        return float("nan")
    inside = basis.T @ vector
    return float(np.arctan2(np.linalg.norm(vector - basis @ inside), np.linalg.norm(inside)))
