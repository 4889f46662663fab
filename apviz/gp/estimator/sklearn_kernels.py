"""scikit-learn kernels as models: trained numbers, bounds, the fitted kernel, and their form in files."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import kernels
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from apviz.gp.scaling import Scaling
from apviz.gp.training.gradient import Gradient
from apviz.gp.training.parametrisation import Constraints, Parametrisation
from apviz.hyperparameters import Hyperparameters
from apviz.kernels import Kernel, from_sklearn

Array = NDArray[np.float64]

# key of the class name in a file
CLASS = "scikit-learn"
#: classes that `from_sklearn` converts, by name
CLASSES: dict[str, type[SklearnKernel]] = {
    kind.__name__: kind
    for kind in (
        kernels.RBF, kernels.Matern, kernels.RationalQuadratic, kernels.ExpSineSquared, kernels.DotProduct,
        kernels.ConstantKernel, kernels.WhiteKernel, kernels.Sum, kernels.Product, kernels.Exponentiation,
    )
}  # fmt: skip
# A value is at a bound if their logarithms differ by less than this.
AT_BOUND = 1e-6


class SklearnModel:
    """A Gaussian process with a scikit-learn kernel in the raw units of inputs and target.

    Attributes:
        kernel: the scikit-learn kernel.
        start: the same kernel as an apviz kernel.
        noise: σ², the sum of its `WhiteKernel`s; None if it has none.
        names: names of the q entries of theta.
    """

    def __init__(self, kernel: SklearnKernel, d: int) -> None:
        self._bounds = np.asarray(kernel.bounds, dtype=np.float64).reshape(-1, 2)
        self.kernel, self._d = kernel, d
        self.start, noise = from_sklearn(self.kernel, d)
        white = [each for each in self.kernel.hyperparameters if each.name.endswith("noise_level")]
        if white and not noise > 0:
            raise ValueError("a WhiteKernel is fixed at noise_level = 0, but apviz needs positive noise; raise it")
        self.noise = noise if white else None
        self.names = tuple(
            each.name if each.n_elements == 1 else f"{each.name}[{k}]"
            for each in self.kernel.hyperparameters if not each.fixed
            for k in range(each.n_elements)
        )  # fmt: skip
        self._is_noise = np.array([name.endswith("noise_level") for name in self.names], dtype=bool)
        self._powers = self._powers_of_two()

    def within_bounds(self) -> SklearnModel:
        """Return the model with values clipped to their bounds, as scikit-learn does before training."""
        return SklearnModel(self.kernel.clone_with_theta(np.clip(self.kernel.theta, *self._bounds.T)), self._d)

    def constraints(self, scaling: Scaling) -> Constraints:
        """Return the constraints of a training, with σ² in scaled units."""
        of_kernel = ~self._is_noise
        factors = np.exp(self._bounds - self.kernel.theta[:, None])[of_kernel]
        return Constraints(
            tuple(np.array(self.names, dtype=object)[of_kernel]), tuple(map(tuple, self._powers.tolist())),
            tuple(map(tuple, factors.tolist())), self._noise_range(scaling),
        )  # fmt: skip

    def at(self, theta: Array, scaling: Scaling, fitted: Hyperparameters) -> Hyperparameters:
        """Return hyperparameters in scaled units at another theta. Mean, and noise if not in theta, are `fitted`'s."""
        kernel, noise = from_sklearn(self.kernel.clone_with_theta(theta), self._d)
        raw = scaling.to_raw(fitted)
        return scaling.to_scaled(Hyperparameters.of(kernel, raw.noise if self.noise is None else noise, raw.mean))

    def fitted(self, h: Hyperparameters, scaling: Scaling) -> SklearnKernel:
        """Return the scikit-learn kernel for fitted hyperparameters in scaled units."""
        raw, theta = scaling.to_raw(h), self.kernel.theta
        factors = self.constraints(scaling).factors_of(self.start, list(raw.build_kernel().numbers.values()))
        theta[~self._is_noise] += np.log(factors)
        if self._is_noise.any():
            assert self.noise is not None
            free = float(np.exp(theta[self._is_noise]).sum())
            theta[self._is_noise] += math.log(max(raw.noise - (self.noise - free), 0.0) / free)
        return self.kernel.clone_with_theta(np.clip(theta, *self._bounds.T))

    def gradient(self, h: Hyperparameters, gradient: Gradient) -> Array:
        """Return the gradient of the log likelihood in theta, for h at this kernel's theta."""
        logarithmic = Parametrisation(h.build_kernel(), 0.0, transform="log")
        found = -logarithmic.chain(logarithmic.raw(h), gradient).numpy()
        slopes = np.empty(len(self.names))
        slopes[~self._is_noise] = found[2:] @ self._powers
        levels = np.exp(self.kernel.theta[self._is_noise])
        slopes[self._is_noise] = found[1] * levels / (self.noise or 1.0)
        return slopes

    def at_bounds(self) -> list[str]:
        """Describe the hyperparameters that are at a bound."""
        found = []
        for name, value, bounds in zip(self.names, self.kernel.theta, self._bounds, strict=True):
            for which, bound in zip(("lower", "upper"), bounds, strict=True):
                if abs(value - bound) < AT_BOUND:
                    found.append(f"{name} = {math.exp(value):.3g} is at its {which} bound")
        return found

    def _noise_range(self, scaling: Scaling) -> tuple[float, float] | None:
        if self.noise is None:
            return None
        free = np.exp(np.column_stack([self.kernel.theta[:, None], self._bounds])[self._is_noise]).sum(0)
        low, high = ((self.noise - free[0]) + free[1:]).tolist()
        return low / scaling.std**2, high / scaling.std**2

    def _powers_of_two(self) -> NDArray[np.int64]:
        """Return the power of each hyperparameter in each number of the kernel, (p, q), found by doubling each."""
        numbers = np.array(list(self.start.numbers.values()))
        columns = []
        for place in np.flatnonzero(~self._is_noise):
            theta = self.kernel.theta
            theta[place] += math.log(2.0)
            doubled: Kernel = from_sklearn(self.kernel.clone_with_theta(theta), self._d)[0]
            columns.append(np.rint(np.log2(np.array(list(doubled.numbers.values())) / numbers)).astype(np.int64))
        return np.column_stack(columns) if columns else np.empty((len(numbers), 0), dtype=np.int64)


def to_plain(kernel: Any) -> Any:
    """Convert a scikit-learn kernel to nested plain values for a file: its class and its settings."""
    if isinstance(kernel, SklearnKernel):
        name = type(kernel).__name__
        if CLASSES.get(name) is not type(kernel):
            raise ValueError(f"{name} is not one of scikit-learn's own kernels, and a file holds no code: use pickle")
        settings = kernel.get_params(deep=False)
        return {CLASS: name, **{name: to_plain(value) for name, value in settings.items()}}
    if isinstance(kernel, list | tuple | np.ndarray):
        return [to_plain(value) for value in kernel]
    if isinstance(kernel, str):
        return kernel
    return float(kernel) if math.isfinite(kernel) else "inf"  # JSON has no infinity


def from_plain(plain: Any) -> SklearnKernel:
    """Convert plain values from `to_plain` back to a kernel. Nothing in them is executed."""
    name = plain.get(CLASS) if isinstance(plain, dict) else None
    if not isinstance(name, str) or name not in CLASSES:
        raise ValueError(f"a scikit-learn kernel must be one of {', '.join(CLASSES)}, got {plain!r:.80}")
    settings = {key: _setting(value) for key, value in plain.items() if key != CLASS}
    try:
        return CLASSES[name](**settings)
    except TypeError as error:
        raise ValueError(f"the scikit-learn kernel {name} cannot be read: {error}") from error


def _setting(plain: Any) -> Any:
    if isinstance(plain, dict):
        return from_plain(plain)
    if isinstance(plain, list):
        return tuple(map(_setting, plain))
    if plain == "inf":
        return math.inf
    if not (plain == "fixed" or isinstance(plain, int | float)):
        raise ValueError(f"a setting of a scikit-learn kernel must be a number, bounds or 'fixed', got {plain!r:.80}")
    return plain
