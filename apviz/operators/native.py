"""The compiled CPU engine: builds `native.cpp` with the machine's C++ compiler, once, and calls it.

The library is kept in the user's cache under a name that holds the source, the flags and the processor, so a
change of any of them builds anew. Rows are split over OpenMP threads: PyTorch's own, for the loader finds its
libgomp already there, so the two never compete for cores. ctypes releases the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

import pooch
import torch
from torch import Tensor

from apviz.kernels import Kernel

log = logging.getLogger("apviz")

SOURCE = Path(__file__).with_name("native.cpp")
HEADER = SOURCE.with_suffix(".h")
# the first set that the compiler accepts is taken; 512-bit vectors are 1.5 times faster at small d where they exist
COMMON = ("-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
FLAGS = (
    (*COMMON, "-march=native", "-fopenmp", "-mprefer-vector-width=512"),
    (*COMMON, "-march=native", "-fopenmp"),
    (*COMMON, "-march=native", "-fopenmp-simd"),
    COMMON,
)
VECTOR_BYTES = 64
# below this many kernel entries a second thread costs more than it saves
ENTRIES_PER_THREAD = 100_000
# kRowGroup of native.cpp
ROW_GROUP = 128


def compiler() -> list[str]:
    """Finds the command of the C++ compiler: $CXX, else the first of c++, g++, clang++ on the path.

    Raises:
        OSError: there is none.
    """
    wanted = shlex.split(os.environ.get("CXX", ""))
    if wanted:
        if shutil.which(wanted[0]) is None:
            raise OSError(f"CXX={wanted[0]!r} is not on the path")
        return wanted
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    raise OSError("no C++ compiler was found")


def _library_path() -> Path:
    processor = platform.machine() + platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        processor += next((line for line in cpuinfo.read_text().splitlines() if line.startswith("flags")), "")
    key = hashlib.sha256(
        SOURCE.read_bytes() + HEADER.read_bytes() + repr(FLAGS).encode() + processor.encode()
    ).hexdigest()[:16]
    return Path(pooch.os_cache("apviz")) / "native" / f"tiles-{key}.so"


def is_built() -> bool:
    """Tests whether the engine is there already, so that using it costs no compiling."""
    return _library_path().exists()


@cache
def library() -> ctypes.CDLL | None:
    """Loads the compiled engine, built if need be (about a second); None, with one warning, where it cannot be."""
    path = _library_path()
    try:
        if not path.exists():
            build(path)
        return _loaded(path)
    except OSError as error:
        warnings.warn(
            f"the compiled engine is not available ({error}); tiled operators run in-place tiles instead, "
            "4 to 46 times slower. It needs a C++ compiler (g++, clang++, or the one CXX names) and a cache "
            "folder that can be written.",
            stacklevel=2,
        )
        return None


def _loaded(path: Path) -> ctypes.CDLL:
    """The library at `path`, built once more if it is damaged; one that was cut off would end the process."""
    digest = _digest_of(path)
    try:
        if digest.exists() and digest.read_text("utf-8") != _sha256(path):
            raise OSError(f"{path} is not as it was built")
        return ctypes.CDLL(str(path))
    except OSError:
        path.unlink(missing_ok=True)
        build(path)
        return ctypes.CDLL(str(path))


def _digest_of(library: Path) -> Path:
    """Where the digest of a library lies."""
    return library.with_name(f"{library.name}.sha256")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build(path: Path) -> None:
    """Compiles the engine to `path`.

    Raises:
        OSError: with what went wrong.
    """
    cxx = compiler()
    started = time.perf_counter()
    log.info("compiling the CPU engine with %s (once on this machine)", cxx[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    error = ""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder) / path.name
        for flags in FLAGS:
            command = [*cxx, *flags, "-o", str(built), str(SOURCE)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0:
                digest = _sha256(built)
                built.replace(path)  # atomic: another process may build at the same time
                _digest_of(path).write_text(digest, "utf-8")
                log.info("compiled in %.1f s", time.perf_counter() - started)
                return
            error = (done.stderr.strip().splitlines() or ["no message"])[-1]
    raise OSError(f"{cxx[0]} failed: {error}")


def supports(kernel: Kernel) -> bool:
    """Tests whether the engine is there, built if need be, and has this kernel."""
    engine = library()
    return engine is not None and kernel.name in _kinds(engine)


@cache
def _kinds(engine: ctypes.CDLL) -> dict[str, int]:
    """The kernels that `native.cpp` has, and the number it calls each by."""
    names = engine["kernel_names"]
    names.restype = ctypes.c_char_p
    return {name.replace("_", "-"): kind for kind, name in enumerate(names().decode().split())}


def _kernel(kernel: Kernel) -> tuple[ctypes.c_int64, ctypes.c_double]:
    """How `native.cpp` is told of a kernel: its number and its shape."""
    return ctypes.c_int64(_kinds(_engine())[kernel.name]), ctypes.c_double(kernel.shape)


def _threads(entries: int) -> ctypes.c_int64:
    return ctypes.c_int64(max(1, min(torch.get_num_threads(), entries // ENTRIES_PER_THREAD)))


def _engine() -> ctypes.CDLL:
    engine = library()
    if engine is None:
        raise RuntimeError("the compiled engine is not available")
    return engine


def _function(name: str, dtype: torch.dtype) -> ctypes._NamedFuncPointer:
    function = _engine()[f"{name}_{'f32' if dtype == torch.float32 else 'f64'}"]
    function.restype = None
    return function


def _transposed(z: Tensor) -> Tensor:
    """z (m, d) as (d, m'), m' padded to whole vectors."""
    lanes = VECTOR_BYTES // z.element_size()
    zt = z.new_zeros(z.shape[1], len(z) + -len(z) % lanes)
    zt[:, : len(z)] = z.T
    return zt


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def columns_matmul_(out: Tensor, kernel: Kernel, x: Tensor, z: Tensor, u: Tensor) -> None:
    """Adds correlation(x, z) u to out: (n, p); x: (n, d), z: (m, d), u: (m, p), contiguous but for u, scaled inputs."""
    _matmul_("columns_matmul", out, kernel, x, z, u)


def symmetric_matmul_(out: Tensor, kernel: Kernel, x: Tensor, u: Tensor) -> None:
    """Adds correlation(x, x) u to out: (n, p), each pair of rows evaluated once."""
    _matmul_("symmetric_matmul", out, kernel, x, x, u)


def _matmul_(name: str, out: Tensor, kernel: Kernel, x: Tensor, z: Tensor, u: Tensor) -> None:
    (n, d), width = x.shape, u.shape[1]
    zt = _transposed(z)
    m, lanes = zt.shape[1], VECTOR_BYTES // x.element_size()
    if width <= _narrow(x.dtype):
        padded = u.new_zeros(width, m)
        padded[:, : len(z)] = u.T
    elif m > len(z) or width % lanes:
        padded = u.new_zeros(m, width + -width % lanes)
        padded[: len(z), :width] = u
    else:
        padded = u.contiguous()
    i64 = ctypes.c_int64
    _function(name, x.dtype)(
        *_kernel(kernel), _pointer(x), i64(n), i64(d), _pointer(zt), i64(m), _pointer(padded), i64(padded.shape[1]),
        i64(width), _pointer(out), _threads(n * m),
    )  # fmt: skip


@cache
def _narrow(dtype: torch.dtype) -> int:
    """Up to how many right-hand sides `native.cpp` wants them as rows."""
    function = _engine()[f"narrow_{'f32' if dtype == torch.float32 else 'f64'}"]
    function.restype = ctypes.c_int64
    return int(function())


def fill(kernel: Kernel, x: Tensor, z: Tensor, out: Tensor) -> None:
    """Evaluates correlation(x, z) into out: (n, m), contiguous; x: (n, d), z: (m, d) scaled inputs."""
    function = _function("fill", x.dtype)
    (n, d), used = x.shape, len(z)
    zt = _transposed(z)
    m = zt.shape[1]
    i64 = ctypes.c_int64
    function(
        *_kernel(kernel), _pointer(x), i64(n), i64(d), _pointer(zt), i64(m), i64(used), _pointer(out), _threads(n * m)
    )


def nearest(x: Tensor, z: Tensor) -> Tensor:
    """Finds the squared distance of each of x: (n, d) to the nearest of z: (m, d), to (n,)."""
    function = _function("nearest", x.dtype)
    (n, d), x, zt = x.shape, x.contiguous(), _transposed(z)
    m, out = zt.shape[1], x.new_empty(n)
    i64 = ctypes.c_int64
    function(_pointer(x), i64(n), i64(d), _pointer(zt), i64(m), i64(len(z)), _pointer(out), _threads(n * m))
    return out


def derivative_sums(kernel: Kernel, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Sums M·correlation, then M·slope·(xₖ − zₖ)² per input, M = ABᵀ; x: (n, d) scaled, a, b: (n, p), to (1 + d,).

    Partial sums of fixed rows are added in one order, so any number of threads gives the same numbers.
    """
    function = _function("derivative_sums", x.dtype)
    (n, d), p = x.shape, a.shape[1]
    zt, bt = _transposed(x), _transposed(b)
    m, a = zt.shape[1], a.contiguous()
    partial = torch.zeros(-(-n // ROW_GROUP), 1 + d, dtype=torch.float64)
    i64 = ctypes.c_int64
    function(
        *_kernel(kernel), _pointer(x), i64(n), i64(d), _pointer(zt), i64(m), _pointer(a), _pointer(bt), i64(p),
        _pointer(partial), _threads(n * m),
    )  # fmt: skip
    return partial.sum(0)


def squared_norms(r: Tensor, starts: Sequence[int]) -> Tensor:
    """Sums the squares of the rows from one start to the next; r: (n, p) contiguous, to (m, p)."""
    m, p = len(starts) - 1, r.shape[1]
    out, offsets = torch.empty(m, p, dtype=r.dtype), _offsets(tuple(starts))
    i64 = ctypes.c_int64
    function = _function("squared_norms", r.dtype)
    function(_pointer(r), i64(p), _pointer(offsets), i64(m), _pointer(out), _threads(r.numel()))
    return out


@lru_cache(maxsize=4)  # one solve asks with the same starts again and again
def _offsets(starts: tuple[int, ...]) -> Tensor:
    return torch.tensor(starts)


def subtract_combination_(r: Tensor, images: Tensor, steps: Tensor) -> None:
    """Subtracts Σᵢ steps[i] · images[i] from r: (n, p) in place; images: (q, n, p), steps: (q, p), contiguous."""
    n, p = r.shape
    i64 = ctypes.c_int64
    function = _function("subtract_combination", r.dtype)
    function(_pointer(r), i64(n), i64(p), _pointer(images), _pointer(steps), i64(len(images)), _threads(images.numel()))


def gathered_products(updates: Tensor, rows: Tensor, a: Tensor) -> Tensor:
    """Sums updates[i, k] · a[rows[i, k]] over k; (q, length, p), (q, length), (n, p), to (q, p) in float64."""
    q, length, p = updates.shape
    out = torch.empty(q, p, dtype=torch.float64)
    i64 = ctypes.c_int64
    function = _function("gathered_products", a.dtype)
    function(
        _pointer(updates), _pointer(rows), i64(q), i64(length), i64(p), _pointer(a), _pointer(out),
        _threads(updates.numel()),
    )  # fmt: skip
    return out
