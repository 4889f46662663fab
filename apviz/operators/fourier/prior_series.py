"""Functions drawn from a Gaussian process by the Fourier series of its kernel: f(x) = Σ √c(ω) z(ω) exp(iω·x).

With independent complex normal numbers z, real and imaginary part are two independent functions. Their covariance is
the series of k, whose error is measured; that of random features falls with the root of their number alone. The series
repeats beyond a box.

Reference: Shinozuka & Deodatis, *Simulation of stochastic processes by spectral representation*, Applied Mechanics
Reviews 44, 1991.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from apviz.kernels.radial import Radial, metrics_of
from apviz.memory import require_memory
from apviz.operators.fourier.far_field import FINEST, Box, DensityField, FarField, decayed, modes_of, series_shape
from apviz.operators.fourier.near_far import BAND_RATIO, without_near
from apviz.operators.fourier.radial_product import Unreachable, memory_of_mode
from apviz.operators.interface import Operator

#: allowed error of a covariance, relative to k(0), and the share of it for frequencies that are left out
ERROR, SPLIT_SHARE = 1e-3, 0.6
#: the same for the images of the box, which the series repeats
IMAGE_SHARE = 0.1
#: share of the sides of the box of all inputs by which it is widened at each end
MARGIN = 0.1
#: most frequencies of a series, and the number of bands that are tried
MOST_MODES, BANDS = 2e7, 80
SINGLE = np.dtype(np.float32)

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Term:
    """The series of one function of a distance: the kernel's part with its features, and √c z of two functions each."""

    far: FarField
    part: int
    spectra: list[NDArray[np.complexfloating]]


class PriorSeries:
    """Functions with mean 0 and the covariance of an operator's kernel, in a box around its inputs.

    Args:
        operator: K, for its kernel and inputs; on the CPU.
        count: number of functions.
        seed: seed of their random numbers.
        around: (m, d) points that the box is to contain too; it is a tenth wider than that of the inputs.
        error: the largest error of a covariance, relative to k(0) of each metric of a sum.

    Attributes:
        error: the error that was measured.

    Raises:
        ValueError: a kernel that the Fourier operator does not support, or an error that takes too many frequencies.
        ImportError: FINUFFT is not installed.
        MemoryError: the frequencies do not fit.

    Examples:
        >>> import torch, apviz
        >>> from apviz.operators import make_operator
        >>> from apviz.operators.fourier.prior_series import PriorSeries
        >>> x = torch.tensor([[0.0], [0.1]], dtype=torch.float64)
        >>> k = make_operator("tiled", x, apviz.Matern52(lengthscale=0.2), 0.1)
        >>> f = PriorSeries(k, 20_000, seed=0)(x)
        >>> bool((f @ f.T / 20_000 - k.kernel(x)).abs().max() < 0.05)
        True
    """

    def __init__(
        self, operator: Operator, count: int, seed: int, around: Tensor | None = None, error: float = ERROR
    ) -> None:
        if operator.x.device.type != "cpu":
            raise ValueError(f"samples by a Fourier series are drawn on the CPU, got inputs on {operator.x.device}")
        self.count, self._lowered, self._centre = count, operator._lowered, operator._centre
        points = [operator.given] if around is None else [operator.given, around]
        features, d = [self._features(each) for each in points], operator.given.shape[1]
        generator, self.error = Generator().manual_seed(int(seed)), 0.0
        self._terms: list[_Term] = []
        for metric in metrics_of(self._lowered, d):
            inputs, *others = (each[metric.part] for each in features)
            low, high = inputs.min(axis=0), inputs.max(axis=0)
            box = Box(low - MARGIN * (high - low), high + MARGIN * (high - low))
            for other in others:
                box = box.with_points(other)
            far = _series(metric.radial, box, error)
            self.error = max(self.error, far.error)
            self._terms.append(_Term(far, metric.part, self._drawn(far, generator)))

    def __call__(self, x: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """Evaluate the functions at x: (n, d) in the box, to (n, count). Equal x gives equal values up to 1e-5."""
        out, features = torch.zeros(len(x), self.count, dtype=dtype), self._features(x)
        for term in self._terms:
            at = features[term.part]
            if not (inside := term.far.box.contains(at)).all():
                raise ValueError(
                    f"{int((~inside).sum()):,} of {len(x):,} points are outside of the box in which these samples are "
                    "defined: pass all points as around=x_star to samples, or use prior='features'"
                )
            transforms = term.far.at(at)
            for k, spectrum in enumerate(term.spectra):
                columns = min(2, self.count - 2 * k)
                out[:, 2 * k : 2 * k + 2] += torch.from_numpy(transforms.values(spectrum, columns))
        return out

    def _features(self, x: Tensor) -> list[Array]:
        return [each.numpy() for each in self._lowered.features(x.double(), self._centre)]

    def _drawn(self, far: FarField, generator: Generator) -> list[NDArray[np.complexfloating]]:
        """Draw √c z for two functions at a time."""
        pairs, modes = -(-self.count // 2), math.prod(far.modes)
        what = f"{self.count:,} samples of {modes:,} frequencies need"
        require_memory(8.0 * modes * (pairs + 3), torch.device("cpu"), what, "use fewer samples, or prior='features'")
        roots = np.sqrt(far.coefficients)
        found = []
        for _ in range(pairs):
            normal = torch.randn(*far.modes, 2, dtype=torch.float32, generator=generator)
            found.append(torch.view_as_complex(normal).numpy() * roots)
        return found


def _series(radial: Radial, box: Box, error: float) -> FarField:
    """Return the shortest series of a function, without near part, whose measured error is small enough."""
    window = decayed(radial, IMAGE_SHARE * error)
    first = math.floor(math.log(2.0 / max(box.diagonal, 1e-6), BAND_RATIO))
    for step in range(first, first + BANDS):
        split = without_near(radial, BAND_RATIO**step)
        if split.error > SPLIT_SHARE * error * radial.size:
            continue
        modes = modes_of(series_shape(split.band, box.sides, window.reach)[1])
        if modes > MOST_MODES:
            raise Unreachable(f"samples to {error:g} of k(0) take {modes:,} frequencies; use prior='features'")
        words = f"{modes:,} frequencies of prior samples need"
        require_memory(modes * memory_of_mode(SINGLE), torch.device("cpu"), words, "use prior='features'")
        far = DensityField(split, box, error, SINGLE, tolerance=FINEST[SINGLE.name], window=window)
        if far.error <= error:
            return far
    raise Unreachable(f"no series of {radial.width} inputs has an error of {error:g} of k(0); use prior='features'")
