"""Check the compiled engine that an installed wheel brings; run as a script outside of the repository.

`[tool.cibuildwheel]` runs it on every wheel that it builds: `python -P tests/trust/prebuilt.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch

os.environ.pop("CXX", None)  # a compiler that is named would be used instead

import apviz
from apviz.operators import native, native_build
from apviz.operators.tiled import TiledOperator


def main() -> None:
    print(apviz.__version__, Path(apviz.__file__).parent, native.origin())
    for structure in native_build.PREBUILT_STRUCTURES:
        assert native.prebuilt(structure) is not None, structure
    rng = np.random.default_rng(0)
    for n, d, sides in ((37, 1, 1), (300, 3, 4), (131, 13, 17)):
        x, u = rng.standard_normal((n, d)), rng.standard_normal((n, sides))
        r = np.sqrt(5) * np.linalg.norm(x[:, None] - x[None], axis=2) / 1.5
        exact = (1 + r + r**2 / 3) * np.exp(-r) @ u + 0.1 * u
        for dtype, allowed in ((torch.float32, 1e-4), (torch.float64, 1e-11)):
            operator = TiledOperator(torch.from_numpy(x).to(dtype), apviz.Matern52(lengthscale=1.5), 0.1, compiled=True)
            operator.prepare()
            np.testing.assert_allclose(operator.matmul(torch.from_numpy(u).to(dtype)).numpy(), exact, atol=allowed)
    print("products agree with NumPy's")


if __name__ == "__main__":
    main()
