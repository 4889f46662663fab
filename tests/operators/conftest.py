from collections.abc import Callable

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from apviz import Kernel
from tests.textbook import CORRELATIONS


@pytest.fixture(scope="session")
def exact_kernel() -> Callable[..., np.ndarray]:
    """Return a function (kernel, x, z=x) that computes k(x, z) by the textbook formula in NumPy float64."""

    def evaluate(kernel: Kernel, x, z=None) -> np.ndarray:
        x = np.asarray(x, dtype=np.float64) / np.asarray(kernel.lengthscale)
        z = x if z is None else np.asarray(z, dtype=np.float64) / np.asarray(kernel.lengthscale)
        return kernel.outputscale * CORRELATIONS[kernel.name](cdist(x, z), **kernel.parameters)

    return evaluate
