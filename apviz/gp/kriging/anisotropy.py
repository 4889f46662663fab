"""Rotations of geometric anisotropy, as in GSTools and PyKrige.

In 3-d the inputs x are taken to axes by R = G₀₁(−yaw) G₀₂(pitch) G₁₂(−roll), where Gᵢⱼ(a) rotates by a in the plane of
axes i and j. These are the Tait–Bryan angles of GSTools; PyKrige's angles about z, y and x are the
same ones, in degrees. In 2-d there is yaw alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from apviz.gp.scaling import Scaling
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import Kernel, Stationary, Transformed, kernel_named

Array = NDArray[np.float64]
#: number of angles by number of inputs
_ANGLES: Final = {1: 0, 2: 1, 3: 3}
#: cos(pitch) below which yaw and roll turn about one axis
_LOCKED: Final = 1e-12


def rotation(angles: Sequence[float], d: int) -> Array:
    """Return the rotation (d, d) from inputs to axes, which are its rows.

    Args:
        angles: yaw in 2-d; yaw, pitch and roll in 3-d, in radians; none: no rotation.

    Examples:
        >>> import math
        >>> from apviz.gp.kriging.anisotropy import rotation
        >>> (rotation([math.radians(30)], 2)[0] ** 2).round(2)  # cos² and sin² of 30°
        array([0.75, 0.25])
    """
    if angles and (d not in _ANGLES or len(angles) != _ANGLES[d]):
        wanted = {2: "one angle", 3: "three angles (yaw, pitch, roll)"}.get(d, "no angles")
        raise ValueError(f"angles: {d - 1} anisotropy ratios take {wanted}, or none, got {len(angles)}")
    planes = ((0, 1), (0, 2), (1, 2))
    found = np.eye(d)
    for place, angle in enumerate(angles):
        found = found @ _in_plane(d, planes[place], angle if place == 1 else -angle)
    return found


def angles_of(axes: Array) -> list[float]:
    """Return the angles of a rotation, whose rows may have any sign: radians, as `rotation` takes them."""
    d = len(axes)
    if d not in _ANGLES:
        raise ValueError(f"only axes of up to 3 inputs can be written as angles, got {d} inputs")
    if d == 1:
        return []
    found = axes.copy()
    if np.linalg.det(found) < 0:  # a reflection, but an axis and its opposite are the same
        found[-1] *= -1.0
    if d == 2:
        return [math.atan2(-found[1, 0], found[0, 0])]
    pitch = math.asin(float(np.clip(found[2, 0], -1.0, 1.0)))
    if math.cos(pitch) < _LOCKED:
        return [math.atan2(found[0, 1], found[1, 1]), pitch, 0.0]
    return [math.atan2(-found[1, 0], found[0, 0]), pitch, math.atan2(-found[2, 1], found[2, 2])]


def isotropic_kernel(kernel: str | Stationary, scaling: Scaling, *, columns: Sequence[int] | None = None) -> Kernel:
    """Return a kernel to train, in scaled units, with one lengthscale for inputs that share a unit.

    Scaling stretches inputs differently, so one lengthscale in scaled units is not one in theirs. This kernel takes the
    stretching back. Its lengthscale starts at half the width of the widest input.

    Args:
        kernel: name of one of `apviz.kernels.KERNELS`, or a stationary kernel, whose numbers are replaced.
        scaling: of the training rows, `apviz.gp.Scaling.of(x, y)`.
        columns: the inputs; None: all.

    Raises:
        ValueError: an unknown name.

    Examples:
        >>> import numpy as np, apviz
        >>> x = np.random.default_rng(0).uniform(0, [900.0, 300.0], (80, 2))
        >>> y = np.sin(np.hypot(*x.T) / 100)
        >>> kernel = apviz.gp.isotropic_kernel("matern52", apviz.gp.Scaling.of(x, y))
        >>> gp = apviz.GaussianProcess(kernel, device="cpu").fit(x, y)
        >>> len(gp.scaling_.to_raw(gp.hyperparameters_).lengthscale)
        1
    """
    chosen = list(range(len(scaling.centre))) if columns is None else list(columns)
    start = kernel_named(kernel, 1.0, 1.0) if isinstance(kernel, str) else kernel
    widest = float(scaling.half_width[chosen].max()) or 1.0
    start = start.with_hyperparameters({"lengthscale": widest, "outputscale": scaling.std**2})
    tied: Kernel = Transformed(start, np.eye(len(chosen)))
    if columns is not None:
        tied = tied.on(chosen)
    return scaling.to_scaled(Hyperparameters.of(tied, noise=1.0)).build_kernel()


def _in_plane(d: int, plane: tuple[int, int], angle: float) -> Array:
    found, (i, j) = np.eye(d), plane
    found[i, i] = found[j, j] = math.cos(angle)
    found[i, j], found[j, i] = -math.sin(angle), math.sin(angle)
    return found
