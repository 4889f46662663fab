"""One projection as geometry: what was projected, where it went, what is left, and at which angles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apviz.rkhs.span import Floats
from apviz.rkhs.trajectory import Trajectory
from apviz.settings import require

#: what is smaller than this part of ‖g‖_H is rounding, and has no angle
ZERO = 1e-9


@dataclass(frozen=True, eq=False)
class StepGeometry:
    """Update j of a trajectory in the orthonormal coordinates of its span, in which lengths and angles are those of H.

    Args:
        number: j; for 0, before the first update, nothing has been projected yet.
        block: the points I of the block; none for number 0.
        kernels: (n, n), row i is k(xᵢ, ·).
        residuals: (steps, n) r⁽⁰⁾ = g, r⁽¹⁾, … of the whole trajectory.
        basis: (n, |I|) orthonormal, of V_I = span{k(xᵢ, ·): i ∈ I}.
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
        """(n,) g."""
        return np.asarray(self.residuals[0])

    @property
    def before(self) -> Floats:
        """(n,) r⁽ʲ⁻¹⁾; g for number 0."""
        return np.asarray(self.residuals[max(self.number - 1, 0)])

    @property
    def after(self) -> Floats:
        """(n,) r⁽ʲ⁾."""
        return np.asarray(self.residuals[self.number])

    @property
    def projection(self) -> Floats:
        """(n,) proj_{V_I} r⁽ʲ⁻¹⁾, as the solver made it: the difference of the two."""
        return self.before - self.after


def step_geometry(trajectory: Trajectory, number: int) -> StepGeometry:
    """The geometry of update `number` (paper, equations 5 and 6).

    Raises:
        ValueError: a step that the trajectory does not have.
    """
    require(
        0 <= number < len(trajectory.steps),
        "number",
        number,
        f"from 0 to {len(trajectory.steps) - 1}, the steps of this trajectory",
    )
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
    """Between a vector and a subspace; by both its parts, which is exact near 0 and near a right angle."""
    if basis.shape[1] == 0 or np.linalg.norm(vector) <= smallest:
        return float("nan")
    inside = basis.T @ vector
    return float(np.arctan2(np.linalg.norm(vector - basis @ inside), np.linalg.norm(inside)))
