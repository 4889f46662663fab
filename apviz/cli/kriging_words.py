"""Models of `apviz fit` in the words of kriging: variograms, one range for all inputs, latitude and longitude."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from apviz.cli import options
from apviz.cli.parsing import floats, words
from apviz.datasets.preprocessing import RawTable
from apviz.datasets.sphere import put_on_sphere
from apviz.kernels import Kernel, Stationary, Transformed
from apviz.settings import require

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess
    from apviz.gp.kriging.variogram import Variogram
    from apviz.gp.scaling import Scaling
    from apviz.hyperparameters import Hyperparameters

#: largest number of inputs whose ranges are reported as a variogram
MOST_AXES = 3

VariogramModel = Annotated[
    str | None,
    options.option(
        options.KRIGING,
        "MODEL",
        "Use exponential, gaussian, matern or spherical, with one range for all inputs; or train it.",
    ),
]
Sill = Annotated[
    float | None, options.option(options.KRIGING, "NUMBER", "Set the sill, nugget included, in the target's units².")
]
Range = Annotated[float | None, options.option(options.KRIGING, "NUMBER", "Set the range, in the inputs' units.")]
Nugget = Annotated[
    float | None,
    options.option(options.KRIGING, "NUMBER", "Set the nugget: the noise variance, in the target's units²."),
]
Nu = Annotated[float | None, options.option(options.KRIGING, "NUMBER", "Set ν of matern: 0.5, 1.5 or 2.5.")]
Anis = Annotated[str | None, options.option(options.KRIGING, "NUMBERS", "Set anisotropy ratios of the other axes.")]
Angles = Annotated[str | None, options.option(options.KRIGING, "NUMBERS", "Rotate the axes of the ranges.")]
Convention = Annotated[
    str,
    options.option(
        options.KRIGING, "NAME",
        "Read range, ratios and angles as gstools or pykrige do, or the range as effective: 95% of the sill reached.",
    ),
]  # fmt: skip
Drift = Annotated[
    str | None,
    options.option(
        options.KRIGING, "NAME", "Estimate a drift (trend) with the predictions: constant, linear or quadratic."
    ),
]
Geographic = Annotated[
    str | None,
    options.option(
        options.KRIGING, "LAT,LON", "Read these two columns, in degrees, as points of the Earth; lengthscales in km."
    ),
]


@dataclass(frozen=True, kw_only=True)
class VariogramOptions:
    """The options of a variogram, as given."""

    model: str | None
    sill: float | None
    range: float | None
    nugget: float | None
    nu: float | None
    anis: str | None
    angles: str | None
    convention: Any

    def check(self, others: tuple[object, ...], *, kernel: str | None, is_geographic: bool) -> None:
        """Refuse options that do not go together.

        Args:
            others: the values of --lengthscale, --outputscale and --noise.
            kernel: the value of --kernel.

        Raises:
            ValueError: names the options.
        """
        from apviz.gp.kriging.variogram import CONVENTIONS

        require(self.convention in CONVENTIONS, "--convention", self.convention, f"one of {', '.join(CONVENTIONS)}")
        numbers = (self.sill, self.range, self.nugget)
        if self.model is None:
            if any(each is not None for each in (*numbers, self.nu, self.anis, self.angles)):
                raise ValueError("--sill, --range, --nugget, --nu, --anis and --angles need --variogram MODEL")
            return
        if kernel is not None or any(each is not None for each in others):
            raise ValueError("--variogram replaces --kernel, --lengthscale, --outputscale and --noise")
        if 0 < numbers.count(None) < len(numbers):
            raise ValueError("--sill, --range and --nugget go together: give all three, or none to train them")
        if self.sill is None and (self.anis is not None or self.angles is not None):
            raise ValueError("--anis and --angles are not trained; give --sill, --range and --nugget too")
        if is_geographic and (self.anis is not None or self.angles is not None):
            raise ValueError("--geographic has the same range in all directions; leave out --anis and --angles")

    def variogram(self) -> Variogram | None:
        """Return the variogram, if its numbers were given.

        Raises:
            ValueError: a number that is out of range.
        """
        from apviz.gp.kriging.variogram import Variogram

        if self.model is None or self.sill is None or self.range is None or self.nugget is None:
            return None
        return Variogram(
            self.model, sill=self.sill, range=self.range, nugget=self.nugget, nu=self.nu, convention=self.convention,
            anis=tuple(floats(self.anis, "--anis") or ()), angles=tuple(floats(self.angles, "--angles") or ()),
        )  # fmt: skip

    def kernel(self) -> Stationary | None:
        """Return the kernel to train, or None without --variogram.

        Raises:
            ValueError: an unknown model.
        """
        from apviz.gp.kriging.variogram import Variogram

        if self.model is None:
            return None
        found = Variogram(self.model, sill=1.0, range=1.0, nu=self.nu, convention="effective").kernel
        assert isinstance(found, Stationary)
        return found


def to_sphere(raw: RawTable, geographic: str | None) -> RawTable:
    """Return the table with points of the Earth instead of two columns, if the option was given.

    Raises:
        ValueError: the option does not name two columns of degrees.
    """
    if geographic is None:
        return raw
    names = words(geographic)
    if len(names) != 2:
        raise ValueError(f"--geographic takes two columns, latitude and longitude, such as lat,lon; got {geographic!r}")
    return put_on_sphere(raw, names[0], names[1])


def tied_kernel(kernel: Stationary, scaling: Scaling, *, on_sphere: bool) -> Kernel:
    """Return the kernel to train, in scaled units, with one range for all inputs, or for a point of the Earth.

    Other inputs than that point have a kernel of their own, which multiplies it, with a lengthscale each.
    """
    from apviz.gp.kriging.anisotropy import isotropic_kernel

    d = len(scaling.centre)
    if not on_sphere or d == 3:
        return isotropic_kernel(kernel, scaling)
    return isotropic_kernel(kernel, scaling, columns=[0, 1, 2]) * _of_others(kernel, (1.0,) * (d - 3))


def _of_others(kernel: Stationary, lengthscale: tuple[float, ...]) -> Kernel:
    """Return a kernel of the inputs after a point of the Earth, of variance 1."""
    scaled = kernel.with_hyperparameters({"lengthscale": lengthscale, "outputscale": 1.0})
    return scaled.on(list(range(3, 3 + len(lengthscale))))


def hyperparameters_of(variogram: Variogram, mean: float, d: int, *, on_sphere: bool) -> Hyperparameters:
    """Return the hyperparameters of a variogram of d inputs, in the units of the table.

    Raises:
        ValueError: the number of ratios does not fit, or the nugget is 0.
    """
    if variogram.anis and len(variogram.anis) != d - 1:
        raise ValueError(
            f"--anis takes a ratio for each input after the first, {d - 1} here, got {len(variogram.anis)}"
        )
    found = variogram.hyperparameters(mean)
    return given_on_sphere(found, d) if on_sphere else found


def given_on_sphere(h: Hyperparameters, d: int) -> Hyperparameters:
    """Return hyperparameters with a lengthscale in km, then one for each other input, for points of the Earth.

    Raises:
        ValueError: another number of lengthscales.
    """
    from apviz.hyperparameters import Hyperparameters

    inner = h.build_kernel()
    assert isinstance(inner, Stationary)
    scales = np.atleast_1d(inner.lengthscale)
    if len(scales) != d - 2:
        wanted = "one number in km" if d == 3 else f"{d - 2} numbers: one in km, then one for each other input"
        raise ValueError(f"--lengthscale takes {wanted} with --geographic, got {len(scales)}")
    kernel: Kernel = Transformed(inner.with_hyperparameters({"lengthscale": float(scales[0])}), np.eye(3))
    if d > 3:
        kernel = kernel.on([0, 1, 2]) * _of_others(inner, tuple(scales[1:].tolist()))
    return Hyperparameters.of(kernel, h.noise, h.mean, h.provenance)


def in_words(gp: GaussianProcess, asked: VariogramOptions, *, on_sphere: bool) -> list[str]:
    """Say what a fitted model is as a variogram, if it is one: for GSTools, and in the user's convention."""
    from apviz.gp.kriging.variogram import Variogram

    if gp.n_features_in_ > MOST_AXES:
        return []
    conventions = {"gstools": "GSTools", "pykrige": "PyKrige", "effective": "effective range"}
    unit = ", in km along chords of the Earth" if on_sphere else ""
    wanted: list[Any] = ["gstools"] if asked.model is None else [*dict.fromkeys(("gstools", asked.convention))]
    found = []
    for name in wanted:
        try:
            variogram = Variogram.of(gp.scaling_.to_raw(gp.hyperparameters_), convention=name)
        except ValueError:  # another kernel, or one that the package does not have
            continue
        found.append(f"As a variogram ({conventions[name]}{unit}): {variogram}")
    return found
