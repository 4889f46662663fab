from collections.abc import Callable

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from apviz import Kernel

CORRELATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "matern12": lambda r: np.exp(-r),
    "matern32": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "matern52": lambda r: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
    "rbf": lambda r: np.exp(-(r**2) / 2),
}


@pytest.fixture(scope="session")
def exact_kernel() -> Callable[..., np.ndarray]:
    """A function (kernel, x, z=x) that gives k(x, z) by the textbook formula in NumPy float64."""

    def evaluate(kernel: Kernel, x, z=None) -> np.ndarray:
        x = np.asarray(x, dtype=np.float64) / np.asarray(kernel.lengthscale)
        z = x if z is None else np.asarray(z, dtype=np.float64) / np.asarray(kernel.lengthscale)
        return kernel.outputscale * CORRELATIONS[kernel.name](cdist(x, z))

    return evaluate
