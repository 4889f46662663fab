"""Products by the libraries of a wheel, compared to those that the compiler of this machine makes for its processor.

n = 14,000 rows of 3 and 10 inputs, Matérn-5/2, one right-hand side (all pairs) and 16 (2,000 columns), and the cell
list, which is the near part of the Fourier operator, with a polynomial of degree 12 and about 200 neighbours a row. One
thread, in turns; the least of several repetitions in seconds of the processor, which other processes change less than
the clock. Libraries without AVX-512 are compared too, on a processor that has it.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from torch import Tensor

import apviz
from apviz.operators import native, native_build
from apviz.operators.fourier import cell_list
from apviz.operators.tiled import TiledOperator
from benchmarks.machine import keep

N, COLUMNS, RHS, REPEATS = 14_000, 2_000, 16, 9
CUTOFF, DEGREE, NEIGHBOURS = 0.15, 12, 200.0
HERE = "compiled here"
#: the libraries that are compared: without kernel, the cell list, and the kernel of the benchmark
STRUCTURES = (*native_build.PREBUILT_STRUCTURES[:2], (("matern52",), (False,), ((0,),)))


@contextmanager
def libraries(name: str) -> Iterator[None]:
    """Use the libraries of an instruction set, or those compiled here, inside a `with`."""
    with mock.patch.dict(os.environ), mock.patch.object(native, "instruction_set", lambda: name):
        os.environ.pop("CXX", None)
        if name == HERE:
            os.environ["CXX"] = " ".join(native_build.compiler())
        for cached in (native.library, native._of_the_wheel, native._function, native._counted):
            cached.cache_clear()
        assert (native.prebuilt(STRUCTURES[-1]) is None) == (name == HERE)
        yield


def products(d: int, dtype: torch.dtype) -> Iterator[tuple[str, Callable[[], Tensor]]]:
    """Yield names of products of random points of the unit cube, and functions that compute them."""
    generator = torch.Generator().manual_seed(d)
    x = torch.rand(N, d, generator=generator, dtype=dtype)
    v = torch.randn(N, RHS, generator=generator, dtype=dtype)
    tiled = TiledOperator(x, apviz.Matern52(lengthscale=0.3 * d**0.5), 0.1, dtype, compiled=True)
    yield "all pairs, 1 right-hand side", partial(tiled.matmul, v[:, :1].contiguous())
    columns = partial(tiled.columns_matmul, slice(0, COLUMNS), v[:COLUMNS].contiguous())
    yield f"{COLUMNS:,} columns, {RHS} right-hand sides", columns
    if d == 3:
        yield "cell list, 1 right-hand side", near_product(x, v[:, :1])


def near_product(x: Tensor, v: Tensor) -> Callable[[], Tensor]:
    points = x.double().numpy()
    near = cell_list.Near(CUTOFF, np.polynomial.chebyshev.chebinterpolate(lambda z: np.exp(-z - 1), DEGREE))
    grid = cell_list.Grid.of(points.min(0), points.max(0), CUTOFF, len(points), NEIGHBOURS)
    at = cell_list.Sorted.of(points, grid, np.dtype(str(x.dtype).removeprefix("torch.")))
    return lambda: torch.from_numpy(cell_list.matmul(grid, near, at, at, v.numpy(), compiled=True))


def compared(names: list[str], product: Callable[[], Tensor]) -> dict[str, object]:
    """Return the least seconds of a product by each library, its ratio to the one compiled here, and its difference."""
    seconds, found = dict.fromkeys(names, float("inf")), dict[str, Tensor]()
    for _ in range(REPEATS):
        for name in names:
            with libraries(name):
                product()
                started = time.process_time()
                found[name] = product()
                seconds[name] = min(seconds[name], time.process_time() - started)
    size = found[HERE].abs().max()
    return {
        name: {
            "milliseconds": round(1e3 * seconds[name], 1),
            "times as long as compiled here": round(seconds[name] / seconds[HERE], 3),
            "largest difference, relative": float((found[name] - found[HERE]).abs().max() / size),
        }
        for name in names
    }


def main() -> None:
    torch.set_num_threads(1)
    best, rows = native.instruction_set(), list[dict[str, object]]()
    sets = list(native_build.INSTRUCTION_SETS[native_build.FAMILIES[platform.machine().lower()]])
    names = [HERE, *sets[sets.index(best) :]]
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(native_build, "PREBUILT", Path(folder)),
        mock.patch.object(native_build, "PREBUILT_STRUCTURES", STRUCTURES),
    ):
        list(native_build.prebuild(Path(folder), system=sys.platform, machine=platform.machine()))
        for d in (3, 10):
            for dtype in (torch.float32, torch.float64):
                for name, product in products(d, dtype):
                    named = {"d": d, "dtype": str(dtype).removeprefix("torch."), "product": name}
                    rows.append(named | compared(names, product))
    keep("engine", {"this processor": best, "products": rows})


if __name__ == "__main__":
    main()
