"""Variogram models in the words of geostatistics, converted to hyperparameters and back.

A variogram γ(h) = nugget + psill · (1 − ρ(h/ℓ)) is a Gaussian process whose kernel has the outputscale psill and the
correlation ρ with lengthscale ℓ, and whose noise variance is the nugget. Packages differ in the number they call range:

=========== ======================== ================== ==============
model       apviz, ρ(r)              GSTools, len_scale PyKrige, range
=========== ======================== ================== ==============
exponential exp(−r/ℓ)                ℓ                  3 ℓ
gaussian    exp(−r²/(2ℓ²))           √(π/2) ℓ           (7√2/4) ℓ
matern      Matérn-ν of √(2ν) r/ℓ    ℓ/√2               has none
spherical   1 − 3r/(2ℓ) + r³/(2ℓ³)   ℓ                  ℓ
=========== ======================== ================== ==============

The convention `effective` takes the distance at which ρ is 0.05, also called practical range: 2.996 ℓ, 2.448 ℓ, and for
ν = 3/2 and 5/2 2.739 ℓ and 2.647 ℓ. For a spherical model it is ℓ, where ρ is 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from apviz.gp.kriging.anisotropy import angles_of, rotation
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import RBF, Kernel, Matern12, Matern32, Matern52, Spherical, Stationary, Transformed
from apviz.settings import positive, require, require_number

Array = NDArray[np.float64]
Convention = Literal["gstools", "pykrige", "effective"]
CONVENTIONS: Final[tuple[str, ...]] = get_args(Convention)
#: correlation that is left at the effective range
LEFT: Final = 0.05
#: largest deviation from a right angle between axes, of rows of unit length
SQUARE: Final = 1e-9
_KERNELS: Final[Mapping[tuple[str, float | None], type[Stationary]]] = {
    ("exponential", None): Matern12,
    ("gaussian", None): RBF,
    ("spherical", None): Spherical,
    ("matern", 0.5): Matern12,
    ("matern", 1.5): Matern32,
    ("matern", 2.5): Matern52,
}
#: model and ν of kernels; Matérn-1/2 is the exponential model
_MODELS: Final[Mapping[type[Kernel], tuple[str, float | None]]] = {
    Matern12: ("exponential", None), RBF: ("gaussian", None), Matern32: ("matern", 1.5), Matern52: ("matern", 2.5),
    Spherical: ("spherical", None),
}  # fmt: skip
_NUS: Final = (0.5, 1.5, 2.5)
MODELS: Final = ("exponential", "gaussian", "matern", "spherical")
#: scale of distances in GSTools' Gaussian model, which it calls rescale; 1 in the others
_RESCALE: Final = {"gaussian": math.sqrt(math.pi) / 2}
_RANGES: Final[Mapping[str, Mapping[str, float]]] = {
    "gstools": {"exponential": 1.0, "gaussian": math.sqrt(math.pi / 2), "matern": math.sqrt(0.5), "spherical": 1.0},
    "pykrige": {"exponential": 3.0, "gaussian": 7.0 * math.sqrt(2.0) / 4.0, "spherical": 1.0},
}


@dataclass(frozen=True)
class Variogram:
    """A variogram model: γ(h) = nugget + (sill − nugget) · (1 − ρ(h)) for distances h > 0.

    Args:
        model: `exponential`, `gaussian`, `matern`, or `spherical`, which is for up to three inputs.
        sill: value that γ approaches, nugget included, in squared units of the target. GSTools' `var` and PyKrige's
            `psill` are sill − nugget.
        range: range along the first axis, in units of the inputs, as the convention defines it.
        convention: `gstools`: range is its `len_scale`, with the default rescale; `pykrige`: its `range`; `effective`:
            the distance at which the correlation is 0.05, also called practical range; 0 for a spherical model.
        nugget: γ just above h = 0; the variance of the noise.
        nu: ν of a `matern` model: 0.5, 1.5 or 2.5.
        anis: d − 1 numbers for the other axes. `gstools` and `effective`: their range ÷ that of the first axis.
            `pykrige`: the inverse, its `anisotropy_scaling`. (): the same range along all axes.
        angles: rotation of the axes. `gstools`: radians, yaw, pitch and roll. `pykrige`: degrees, about x, y and z, or
            one angle. `effective`: degrees, in the order of GSTools. In 2-d: one angle, counterclockwise, from the
            first input to the first axis.

    Raises:
        ValueError: a number that is out of range, or a model or convention that is not known; the message lists them.

    Examples:
        >>> import apviz
        >>> ours = apviz.gp.Variogram("exponential", sill=2.0, range=300.0, convention="pykrige", nugget=0.1)
        >>> ours.hyperparameters(mean=5.0).lengthscale
        (100.0,)
        >>> print(ours.in_convention("gstools"))
        Exponential, var = 1.9, len_scale = 100, nugget = 0.1
        >>> ours([100.0, 300.0]).round(3)
        array([1.301, 1.905])
        >>> apviz.gp.Variogram.of(ours.hyperparameters(), convention="pykrige") == ours
        True
    """

    model: str
    sill: float
    range: float
    convention: Convention
    nugget: float = 0.0
    nu: float | None = None
    anis: tuple[float, ...] = ()
    angles: tuple[float, ...] = ()

    def __init__(
        self,
        model: str,
        *,
        sill: float,
        range: float,
        convention: Convention,
        nugget: float = 0.0,
        nu: float | None = None,
        anis: float | tuple[float, ...] = (),
        angles: float | tuple[float, ...] = (),
    ) -> None:
        require(model in MODELS, "model", model, f"one of {', '.join(MODELS)}")
        require(convention in CONVENTIONS, "convention", convention, f"one of {', '.join(CONVENTIONS)}")
        require(
            (nu in _NUS) if model == "matern" else nu is None, f"nu of the model {model}", nu,
            "one of 0.5, 1.5, 2.5" if model == "matern" else "None, as only matern has it",
        )  # fmt: skip
        require_number("nugget", nugget, 0.0, "at least 0")
        require(
            positive("sill", sill) > nugget, "sill", sill, f"a number above the nugget of {nugget:g}: it includes it"
        )
        for name, value in (
            ("model", model), ("sill", float(sill)), ("range", positive("range", range)), ("convention", convention),
            ("nugget", float(nugget)), ("nu", nu),
            ("anis", tuple(positive("anis", each) for each in _several("anis", anis))),
            ("angles", _several("angles", angles)),
        ):  # fmt: skip
            object.__setattr__(self, name, value)
        _ = self.lengthscale, self.rotation  # raise for what cannot be converted

    # --- from and to other words ------------------------------------------------------------------------------------

    @classmethod
    def of(cls, hyperparameters: Hyperparameters, *, convention: Convention) -> Variogram:
        """Return the variogram of hyperparameters in the units of inputs and target (`Scaling.to_raw`).

        Lengthscales of several inputs become ratios. The prior mean has no place in a variogram.

        Raises:
            ValueError: a kernel other than a single Matérn or RBF, or inputs that are not only rotated and scaled.
        """
        kernel = hyperparameters.build_kernel()
        inner = kernel.kernel if isinstance(kernel, Transformed) else kernel
        if type(inner) not in _MODELS:
            known = ", ".join(kind.__name__ for kind in _MODELS)
            raise ValueError(f"a variogram needs one kernel of {known}, which may have rotated axes; got {kernel!r}")
        assert isinstance(inner, Stationary)
        model, nu = _MODELS[type(inner)]
        scales = np.atleast_1d(np.asarray(inner.lengthscale))
        angles: list[float] = []
        if isinstance(kernel, Transformed):
            axes = np.array(kernel.matrix) / scales[:, None]
            lengths = np.linalg.norm(axes, axis=1)
            if axes.shape[0] != axes.shape[1] or not _are_square(axes / lengths[:, None]):
                raise ValueError(f"a variogram needs perpendicular axes, one for each input; got {kernel!r}")
            scales, angles = 1.0 / lengths, angles_of(axes / lengths[:, None])
        ratios = (scales[1:] / scales[0]).tolist()
        return cls._converted(
            convention, model, nu, inner.outputscale, hyperparameters.noise, float(scales[0]), ratios, angles
        )

    @classmethod
    def _converted(
        cls,
        convention: Convention,
        model: str,
        nu: float | None,
        psill: float,
        nugget: float,
        lengthscale: float,
        ratios: Sequence[float],
        radians: Sequence[float],
    ) -> Variogram:
        """Return the variogram of a lengthscale, of ratios to it, and of yaw, pitch and roll in radians."""
        require(convention in CONVENTIONS, "convention", convention, f"one of {', '.join(CONVENTIONS)}")
        if convention == "pykrige" and nu == 0.5:
            model, nu = "exponential", None
        yaw_first = [*radians] if convention == "gstools" else [math.degrees(each) for each in radians]
        return cls(
            model, sill=psill + nugget, range=lengthscale * _range(model, nu, convention), convention=convention,
            nugget=nugget, nu=nu,
            anis=tuple(1.0 / each for each in ratios) if convention == "pykrige" else tuple(ratios),
            angles=tuple(yaw_first[::-1] if convention == "pykrige" else yaw_first),
        )  # fmt: skip

    @classmethod
    def from_gstools(cls, model: Any) -> Variogram:
        """Return the variogram of a `gstools` covariance model: `Exponential`, `Gaussian`, `Matern` or `Spherical`.

        A model with `latlon=True` has its range in the unit of `geo_scale`: use it for the points of
        `apviz.datasets.points_on_sphere(latitude, longitude, radius=model.geo_scale)`.
        """
        name = str(model.name).lower()
        require(name in MODELS, "model", model.name, f"one of {', '.join(MODELS)} in GSTools")
        is_flat = not getattr(model, "latlon", False)
        return cls(
            name, sill=model.var + model.nugget, range=model.len_rescaled * _RESCALE.get(name, 1.0),
            convention="gstools", nugget=model.nugget, nu=model.nu if name == "matern" else None,
            anis=tuple(model.anis) if is_flat else (), angles=tuple(model.angles) if is_flat else (),
        )  # fmt: skip

    @classmethod
    def from_pykrige(cls, kriging: Any) -> Variogram:
        """Return the variogram of a `pykrige` kriging object: `exponential`, `gaussian` or `spherical`."""
        models = tuple(_RANGES["pykrige"])
        name = kriging.variogram_model
        require(name in models, "variogram_model", name, f"one of {', '.join(models)}")
        psill, length, nugget = (float(each) for each in kriging.variogram_model_parameters)
        anis: tuple[float, ...]
        angles: tuple[float, ...]
        if hasattr(kriging, "anisotropy_scaling_y"):
            anis = (kriging.anisotropy_scaling_y, kriging.anisotropy_scaling_z)
            angles = (kriging.anisotropy_angle_x, kriging.anisotropy_angle_y, kriging.anisotropy_angle_z)
        else:
            anis, angles = (kriging.anisotropy_scaling,), (kriging.anisotropy_angle,)
        return cls(
            name, sill=psill + nugget, range=length, convention="pykrige", nugget=nugget, anis=anis, angles=angles
        )

    def in_convention(self, convention: Convention) -> Variogram:
        """Return the same variogram with the numbers of another convention.

        Raises:
            ValueError: the convention is unknown, or has no such model.
        """
        return self._converted(
            convention, self.model, self.nu, self.psill, self.nugget, self.lengthscale, self._ratios, self._radians
        )

    def hyperparameters(self, mean: float = 0.0) -> Hyperparameters:
        """Return the hyperparameters of this variogram and a prior mean, in the units of inputs and target.

        Raises:
            ValueError: the nugget is 0.
        """
        if not self.nugget:
            raise ValueError(
                f"nugget must be positive, got 0: apviz solves systems with noise. A small one, such as "
                f"{1e-6 * self.sill:g} (a millionth of the sill), changes predictions by little"
            )
        return Hyperparameters.of(self.kernel, self.nugget, mean, f"variogram, {self.convention}: {self}")

    @property
    def kernel(self) -> Kernel:
        """The kernel: of rotated inputs if axes are rotated, and with a lengthscale for each axis if they differ."""
        scales = (self.lengthscale, *(self.lengthscale * ratio for ratio in self._ratios))
        is_isotropic = len({*scales}) == 1
        lengthscale = self.lengthscale if is_isotropic else scales
        kernel = _KERNELS[self.model, self.nu](lengthscale=lengthscale, outputscale=self.psill)
        return kernel if is_isotropic or not any(self.angles) else Transformed(kernel, self.rotation)

    # --- numbers ----------------------------------------------------------------------------------------------------

    @property
    def psill(self) -> float:
        """Partial sill, sill − nugget: the variance of the function."""
        return self.sill - self.nugget

    @property
    def lengthscale(self) -> float:
        """Lengthscale of apviz's kernel along the first axis."""
        return self.range / _range(self.model, self.nu, self.convention)

    @property
    def rotation(self) -> Array:
        """The rotation of inputs to axes, (d, d), with the axes as rows.

        Raises:
            ValueError: the number of angles fits no rotation of as many axes as there are ratios.
        """
        return rotation(self._radians, 1 + len(self.anis))

    def isotropic(self, x: ArrayLike) -> Array:
        """Rotate and stretch inputs x: (m, d) so that the range is the same in all directions, that of the first axis.

        Raises:
            ValueError: inputs with another number of columns than there are axes.
        """
        found = np.asarray(x, dtype=np.float64)
        if not self.anis:
            return found
        if found.ndim != 2 or found.shape[1] != 1 + len(self.anis):
            raise ValueError(f"x must have shape (m, {1 + len(self.anis)}), got {found.shape}")
        return found @ self.rotation.T / (1.0, *self._ratios)

    def correlation(self, distance: ArrayLike) -> Array:
        """Evaluate ρ at distances along the first axis."""
        h = torch.from_numpy(np.array(distance, dtype=np.float64).reshape(-1, 1))
        kernel = _KERNELS[self.model, self.nu](lengthscale=self.lengthscale)
        found: Array = kernel(h, torch.zeros(1, 1, dtype=torch.float64)).numpy()
        return found.reshape(np.shape(distance))

    def __call__(self, distance: ArrayLike) -> Array:
        """Evaluate γ at distances h > 0 along the first axis; at 0 its limit, the nugget, as GSTools and PyKrige do."""
        return self.nugget + self.psill * (1.0 - self.correlation(distance))

    def __str__(self) -> str:
        """Name the model and its numbers in the words of its convention."""
        shape = "" if self.nu is None else f", nu = {self.nu:g}"
        words = {
            "gstools": f"{self.model.capitalize()}{shape}, var = {self.psill:.4g}, len_scale = {self.range:.4g}",
            "pykrige": f"{self.model}, psill = {self.psill:.4g}, range = {self.range:.4g}",
            "effective": f"{self.model}{shape}, sill = {self.sill:.4g}, effective range = {self.range:.4g}",
        }
        found = f"{words[self.convention]}, nugget = {self.nugget:.4g}"
        if any(ratio != 1.0 for ratio in self.anis):
            found += f", anis = {_shown(self.anis)}, angles = {_shown(self.angles) if self.angles else '0'}"
        return found

    @property
    def _ratios(self) -> tuple[float, ...]:
        """Ranges of the other axes ÷ that of the first."""
        return tuple(1.0 / each for each in self.anis) if self.convention == "pykrige" else self.anis

    @property
    def _radians(self) -> tuple[float, ...]:
        """Angles in radians, yaw first."""
        if self.convention == "gstools":
            return self.angles
        degrees = self.angles[::-1] if self.convention == "pykrige" else self.angles
        return tuple(math.radians(each) for each in degrees)


def _range(model: str, nu: float | None, convention: str) -> float:
    """Return the range of a convention ÷ lengthscale."""
    if convention == "effective":
        return _effective(model, nu)
    known = _RANGES[convention]
    if model not in known:
        raise ValueError(f"PyKrige has {', '.join(known)}, but no {model} model; choose gstools or effective")
    return known[model]


@cache
def _effective(model: str, nu: float | None) -> float:
    """Return the distance in lengthscales at which the correlation is `LEFT`."""
    if model == "spherical":
        return 1.0
    kernel, zero = _KERNELS[model, nu](), torch.zeros(1, 1, dtype=torch.float64)
    return float(brentq(lambda h: float(kernel(zero + h, zero)) - LEFT, 1.0, 10.0, xtol=1e-14))


def _are_square(axes: Array) -> bool:
    return bool(np.abs(axes @ axes.T - np.eye(len(axes))).max() <= SQUARE)


def _several(name: str, values: Any) -> tuple[float, ...]:
    try:
        found = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        found = np.array([np.nan])
    require(found.ndim == 1 and bool(np.isfinite(found).all()), name, values, "finite numbers, one or several")
    return tuple(found.tolist())


def _shown(values: tuple[float, ...]) -> str:
    return ", ".join(f"{each:.4g}" for each in values)
