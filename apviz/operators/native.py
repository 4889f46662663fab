"""The compiled CPU engine: builds `native.cpp` with the machine's C++ compiler, once, and calls it.

The library is kept in the user's cache under a name that holds the source, the flags and the processor, so a
change of any of them builds anew. Rows are split over threads; ctypes releases the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path

import pooch
import torch
from torch import Tensor

log = logging.getLogger("apviz")

SOURCE = Path(__file__).with_name("native.cpp")
# the first set that the compiler accepts is taken; 512-bit vectors are 1.5 times faster at small d where they exist
FLAGS = (
    ("-O3", "-march=native", "-mprefer-vector-width=512", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"),
    ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"),
    ("-O3", "-fno-math-errno", "-fno-trapping-math"),
)
KINDS = {"matern12": 0, "matern32": 1, "matern52": 2, "rbf": 3}
ROWS = 4  # kRows of native.cpp
VECTOR_BYTES = 64
# below this many kernel entries a second thread costs more than it saves
ENTRIES_PER_THREAD = 100_000


def compiler() -> str | None:
    """The C++ compiler to use: $CXX, else the first of c++, g++, clang++ on the path, else None."""
    wanted = os.environ.get("CXX")
    return shutil.which(wanted) if wanted else next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)


def _library_path() -> Path:
    processor = platform.machine() + platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        processor += next((line for line in cpuinfo.read_text().splitlines() if line.startswith("flags")), "")
    key = hashlib.sha256(SOURCE.read_bytes() + repr(FLAGS).encode() + processor.encode()).hexdigest()[:16]
    return Path(pooch.os_cache("apviz")) / "native" / f"tiles-{key}.so"


def is_built() -> bool:
    """Whether the engine is there already, so that using it costs no compiling."""
    return _library_path().exists()


@cache
def library() -> ctypes.CDLL | None:
    """The compiled engine, built if need be (about a second); None, with one warning, where it cannot be."""
    path = _library_path()
    if not path.exists():
        problem = _build(path)
        if problem:
            warnings.warn(
                f"the compiled engine is not available ({problem}); tiled operators run in-place tiles instead, "
                "about three times slower. Install a C++ compiler (g++ or clang++), or set CXX to one.",
                stacklevel=2,
            )
            return None
    return ctypes.CDLL(str(path))


def _build(path: Path) -> str | None:
    """Compiles to `path`; returns what went wrong, or None."""
    cxx = compiler()
    if cxx is None:
        return "no C++ compiler was found"
    started = time.perf_counter()
    log.info("compiling the CPU engine with %s (once on this machine)", cxx)
    path.parent.mkdir(parents=True, exist_ok=True)
    error = ""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder) / path.name
        for flags in FLAGS:
            command = [cxx, "-std=c++17", *flags, "-shared", "-fPIC", "-o", str(built), str(SOURCE)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0:
                built.replace(path)  # atomic: another process may build at the same time
                log.info("compiled in %.1f s", time.perf_counter() - started)
                return None
            error = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return f"{cxx} failed: {error}"


@lru_cache(maxsize=1)
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="apviz-tiles")


def _function(name: str, dtype: torch.dtype) -> ctypes._NamedFuncPointer:
    engine = library()
    if engine is None:
        raise RuntimeError("the compiled engine is not available")
    function = engine[f"{name}_{'f32' if dtype == torch.float32 else 'f64'}"]
    function.restype = None
    return function


def _transposed(z: Tensor) -> Tensor:
    """z (m, d) as (d, m'), m' padded to whole vectors."""
    lanes = VECTOR_BYTES // z.element_size()
    return torch.nn.functional.pad(z.T, (0, -len(z) % lanes)).contiguous()


def _in_row_ranges(n: int, columns: int, call: object) -> None:
    """Calls `call(first, last)` over row ranges in parallel."""
    count = max(1, min(torch.get_num_threads(), n * columns // ENTRIES_PER_THREAD))
    if count == 1:
        call(0, n)  # type: ignore[operator]
        return
    step = -(-n // (count * ROWS)) * ROWS
    jobs = [
        _threads(torch.get_num_threads()).submit(call, first, min(first + step, n))  # type: ignore[arg-type]
        for first in range(0, n, step)
    ]
    for job in jobs:
        job.result()


def _pointer(tensor: Tensor, row: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr() + row * tensor.stride(0) * tensor.element_size())


def columns_matmul_(out: Tensor, kind: str, x: Tensor, z: Tensor, u: Tensor) -> None:
    """out += correlation(x, z) u; out: (n, p), x: (n, d), z: (m, d), u: (m, p), all contiguous, scaled inputs."""
    function = _function("columns_matmul", x.dtype)
    (n, d), width = x.shape, u.shape[1]
    zt = _transposed(z)
    lanes = VECTOR_BYTES // x.element_size()
    padded = torch.nn.functional.pad(u, (0, -width % lanes, 0, zt.shape[1] - len(z))).contiguous()
    sizes = [ctypes.c_int64(v) for v in (KINDS[kind], d, zt.shape[1], padded.shape[1], width)]

    def call(first: int, last: int) -> None:
        scratch = torch.empty(ROWS * d + width, dtype=x.dtype)
        function(
            sizes[0], _pointer(x, first), ctypes.c_int64(last - first), sizes[1], _pointer(zt), sizes[2],
            _pointer(padded), sizes[3], sizes[4], _pointer(out, first), _pointer(scratch),
        )  # fmt: skip

    _in_row_ranges(n, zt.shape[1], call)


def fill(kind: str, x: Tensor, z: Tensor) -> Tensor:
    """correlation(x, z); x: (n, d), z: (m, d) scaled inputs, to (n, m)."""
    function = _function("fill", x.dtype)
    (n, d), m = x.shape, len(z)
    zt, out = _transposed(z), torch.empty(n, m, dtype=x.dtype)
    sizes = [ctypes.c_int64(v) for v in (KINDS[kind], d, zt.shape[1], m)]

    def call(first: int, last: int) -> None:
        scratch = torch.empty(ROWS * d, dtype=x.dtype)
        function(
            sizes[0], _pointer(x, first), ctypes.c_int64(last - first), sizes[1], _pointer(zt), sizes[2],
            sizes[3], _pointer(out, first), _pointer(scratch),
        )  # fmt: skip

    _in_row_ranges(n, zt.shape[1], call)
    return out
