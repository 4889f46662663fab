"""The compiled CPU engine: calls the library of each form of kernel, from the wheel or built once by `native_build.py`.

Rows are split over OpenMP threads. They are PyTorch's own, because the loader finds its libgomp already loaded, so the
two never compete for cores. ctypes releases the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path

import torch
from torch import Tensor

from apviz.kernels import Formula, Gradients
from apviz.operators.native_build import FAMILIES, Structure, build, loaded, path_of, prebuilt_path

log = logging.getLogger("apviz")

#: the functions in `native_forms.h`; those of a template are followed by its arguments
FORMS = frozenset({
    "matern12", "matern32", "matern52", "rbf", "rational_quadratic", "inner_product", "equal", "power", "piecewise",
    "spherical",
})  # fmt: skip
#: largest number of parts whose tiles together stay in the L2 cache
MAX_PARTS = 64

# number of entries from which compiling, about a second, pays off at about a nanosecond saved per entry
ENTRIES_THAT_EARN_COMPILING = 5e8

# number of kernel entries below which a second thread costs more than it saves
ENTRIES_PER_THREAD = 100_000
# kRowGroup of native_loops.h
ROW_GROUP = 128


def is_built(formula: Formula | None = None) -> bool:
    """Test whether the library is built already, for a kernel or without one, so that its use needs no compiling."""
    if formula is not None and not (_has_forms(formula) and _is_ready(formula.structure)):
        return False
    return _is_ready(None)


def _is_ready(structure: Structure | None) -> bool:
    return prebuilt(structure) is not None or path_of(structure).exists()


@cache
def instruction_set() -> str:
    """Return the best of the instruction sets in `native_build.INSTRUCTION_SETS` that this processor has.

    PyTorch tests the processor, and the operating system's support for its registers.
    """
    if FAMILIES.get(platform.machine().lower()) == "arm":
        return "neon"
    return {"AVX512": "avx512", "AVX2": "avx2"}.get(torch.backends.cpu.get_cpu_capability(), "sse2")


def prebuilt(structure: Structure | None) -> ctypes.CDLL | None:
    """Load the library that the wheel brings for a kernel or without one; None without, and where CXX is set."""
    return None if os.environ.get("CXX") else _of_the_wheel(structure, instruction_set())


@cache  # predicting a row asks for it, and takes less than a millisecond
def _of_the_wheel(structure: Structure | None, instructions: str) -> ctypes.CDLL | None:
    path = prebuilt_path(structure, instructions)
    if not path.exists():
        return None
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        log.info("the prebuilt CPU engine does not load, and is compiled instead: %s", error)
        return None


#: the engine that `kept` sets for this thread
_KEPT: ContextVar[bool | None] = ContextVar("kept", default=None)


@contextmanager
def kept(compiled: bool) -> Iterator[None]:
    """Keep operators that choose an engine to the compiled one, or to torch's, in this thread inside a `with`.

    Both compute the same numbers up to rounding. A computation that must continue bit for bit keeps its first engine,
    even if a library appears in the cache later. An operator's `prepare` still compiles.
    """
    before = _KEPT.set(compiled)
    try:
        yield
    finally:
        _KEPT.reset(before)


def is_wanted(formula: Formula | None = None, expected_entries: float = 0.0) -> bool:
    """Test whether the engine pays off for this number of entries: it is built, or saves more than it takes."""
    keeps = _KEPT.get()
    return (is_built(formula) or expected_entries >= ENTRIES_THAT_EARN_COMPILING) if keeps is None else keeps


@cache
def library(structure: Structure | None = None) -> ctypes.CDLL | None:
    """Load the compiled engine of a kernel or without one, built if necessary; None, with one warning, on failure."""
    if (ready := prebuilt(structure)) is not None:
        return ready
    path = path_of(structure)
    try:
        if not path.exists():
            build(path, structure)
        return loaded(path, structure)
    except OSError as error:
        slower = (
            "near neighbours are found by SciPy"
            if isinstance(structure, Path)
            else "tiled operators run in-place tiles"
        )
        warnings.warn(
            f"the compiled engine is not available ({error}); {slower} instead, "
            "2 to 46 times slower. It needs a C++ compiler (g++, clang++, or the one CXX names) and a writable cache "
            "folder.",
            stacklevel=2,
        )
        return None


def origin() -> str:
    """Return in words where the compiled engine comes from, after building it if necessary."""
    if library() is None:
        return "torch tiles, as there is no compiled engine"
    if prebuilt(None) is None:
        return "compiled on this machine"
    return f"prebuilt for {instruction_set().upper()}; other kernels, such as sums and products, need a compiler"


def supports(formula: Formula) -> bool:
    """Test whether the engine is available for a kernel, after building it if necessary."""
    return _has_forms(formula) and library() is not None and library(formula.structure) is not None


def _has_forms(formula: Formula) -> bool:
    forms = formula.structure[0]
    return len(forms) <= MAX_PARTS and all(form.partition("<")[0] in FORMS for form in forms)


def _numbers(formula: Formula) -> tuple[Tensor, Tensor]:
    """Return the numbers of a kernel for its library; both tensors must stay alive until the call returns."""
    return torch.tensor([*formula.shapes, *formula.weights], dtype=torch.float64), torch.tensor(formula.starts)


def _threads(entries: int) -> ctypes.c_int64:
    return ctypes.c_int64(max(1, min(torch.get_num_threads(), entries // ENTRIES_PER_THREAD)))


def _engine(structure: Structure | None = None) -> ctypes.CDLL:
    engine = library(structure)
    if engine is None:
        raise RuntimeError("the compiled engine is not available")
    return engine


@cache
def _function(name: str, dtype: torch.dtype, structure: Structure | None = None) -> ctypes._NamedFuncPointer:
    function = _engine(structure)[f"{name}_{'f32' if dtype == torch.float32 else 'f64'}"]
    function.restype = None
    return function


def _transposed(z: Tensor, structure: Structure | None = None) -> Tensor:
    """Return z (m, d) as (d, m'), with m' padded to whole vectors."""
    lanes = _counted("lanes", z.dtype, structure)
    zt = z.new_zeros(z.shape[1], len(z) + -len(z) % lanes)
    zt[:, : len(z)] = z.T
    return zt


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def columns_matmul_(out: Tensor, formula: Formula, x: Tensor, z: Tensor, u: Tensor) -> None:
    """Add k(x, z) u to out: (n, p); features x: (n, D), z: (m, D), u: (m, p), contiguous except u."""
    _matmul_("columns_matmul", out, formula, x, z, u)


def symmetric_matmul_(out: Tensor, formula: Formula, x: Tensor, u: Tensor) -> None:
    """Add k(x, x) u to out: (n, p), evaluating each pair of rows once."""
    _matmul_("symmetric_matmul", out, formula, x, x, u)


def _matmul_(name: str, out: Tensor, formula: Formula, x: Tensor, z: Tensor, u: Tensor) -> None:
    (n, d), width = x.shape, u.shape[1]
    zt = _transposed(z, formula.structure)
    m, lanes = zt.shape[1], _counted("lanes", x.dtype, formula.structure)
    if width <= _counted("narrow", x.dtype, formula.structure):
        padded = u.new_zeros(width, m)
        padded[:, : len(z)] = u.T
    elif m > len(z) or width % lanes:
        padded = u.new_zeros(m, width + -width % lanes)
        padded[: len(z), :width] = u
    else:
        padded = u.contiguous()
    i64, (numbers, starts) = ctypes.c_int64, _numbers(formula)
    _function(name, x.dtype, formula.structure)(
        _pointer(numbers), _pointer(starts), _pointer(x), i64(n), i64(d), _pointer(zt), i64(m), _pointer(padded),
        i64(padded.shape[1]), i64(width), _pointer(out), _threads(n * m),
    )  # fmt: skip


@cache
def _counted(what: str, dtype: torch.dtype, structure: Structure | None = None) -> int:
    """Return a number of a library: its vector lanes, or the most right-hand sides that it takes as rows."""
    function = _engine(structure)[f"{what}_{'f32' if dtype == torch.float32 else 'f64'}"]
    function.restype = ctypes.c_int64
    return int(function())


def fill(formula: Formula, x: Tensor, z: Tensor, out: Tensor) -> None:
    """Evaluate k(x, z) into out: (n, m), contiguous; features x: (n, D), z: (m, D)."""
    (n, d), zt = x.shape, _transposed(z, formula.structure)
    m, i64, (numbers, starts) = zt.shape[1], ctypes.c_int64, _numbers(formula)
    _function("fill", x.dtype, formula.structure)(
        _pointer(numbers), _pointer(starts), _pointer(x), i64(n), i64(d), _pointer(zt), i64(m), i64(len(z)),
        _pointer(out), _threads(n * m),
    )  # fmt: skip


def nearest(x: Tensor, z: Tensor) -> Tensor:
    """Return the squared distance of each row of x: (n, d) to the nearest row of z: (m, d), as (n,)."""
    function = _function("nearest", x.dtype)
    (n, d), x, zt = x.shape, x.contiguous(), _transposed(z)
    m, out = zt.shape[1], x.new_empty(n)
    i64 = ctypes.c_int64
    function(_pointer(x), i64(n), i64(d), _pointer(zt), i64(m), i64(len(z)), _pointer(out), _threads(n * m))
    return out


def gradients(formula: Formula, x: Tensor, z: Tensor, a: Tensor, b: Tensor) -> Gradients:
    """Differentiate Σᵢⱼ (aᵢᵀbⱼ) k(xᵢ, zⱼ); features x: (n, D), z: (m, D), a: (n, p), b: (m, p).

    Partial sums over fixed rows are added in one order, so any number of threads gives the same numbers.
    """
    bt = _transposed(b, formula.structure)
    return _gradients(formula, x, _transposed(z, formula.structure), a.contiguous(), bt)


def weighted_gradients(formula: Formula, x: Tensor, z: Tensor, weights: Tensor) -> Gradients:
    """Differentiate Σᵢⱼ Mᵢⱼ k(xᵢ, zⱼ) in the same way; weights M: (n, m)."""
    return _gradients(formula, x, _transposed(z, formula.structure), weights.contiguous(), None)


def _gradients(formula: Formula, x: Tensor, zt: Tensor, a: Tensor, bt: Tensor | None) -> Gradients:
    (n, d), m, x = x.shape, zt.shape[1], x.contiguous()
    i64, (numbers, starts) = ctypes.c_int64, _numbers(formula)
    parts, terms = len(formula.functions), len(formula.terms)
    out = torch.zeros(n, d, dtype=torch.float64)
    partial = torch.zeros(-(-n // ROW_GROUP), parts + terms, dtype=torch.float64)
    _function("gradients", x.dtype, formula.structure)(
        _pointer(numbers), _pointer(starts), _pointer(x), i64(n), i64(d), _pointer(zt), i64(m), _pointer(a),
        None if bt is None else _pointer(bt), i64(a.shape[1]), _pointer(out), _pointer(partial), _threads(n * m),
    )  # fmt: skip
    sums = partial.sum(0)
    return Gradients(out, sums[:parts], sums[parts:], sums.new_zeros(0))


def squared_norms(r: Tensor, starts: Sequence[int]) -> Tensor:
    """Sum the squares of the rows from one start to the next; r: (n, p) contiguous, to (m, p)."""
    m, p = len(starts) - 1, r.shape[1]
    out, offsets = torch.empty(m, p, dtype=r.dtype), _offsets(tuple(starts))
    i64 = ctypes.c_int64
    function = _function("squared_norms", r.dtype)
    function(_pointer(r), i64(p), _pointer(offsets), i64(m), _pointer(out), _threads(r.numel()))
    return out


@lru_cache(maxsize=4)  # a solve calls it with the same starts again and again
def _offsets(starts: tuple[int, ...]) -> Tensor:
    return torch.tensor(starts)


def subtract_combination_(r: Tensor, images: Tensor, steps: Tensor) -> None:
    """Subtract Σᵢ steps[i] · images[i] from r: (n, p) in place; images: (q, n, p), steps: (q, p), contiguous."""
    n, p = r.shape
    i64 = ctypes.c_int64
    function = _function("subtract_combination", r.dtype)
    function(_pointer(r), i64(n), i64(p), _pointer(images), _pointer(steps), i64(len(images)), _threads(images.numel()))


def gathered_products(updates: Tensor, rows: Tensor, a: Tensor) -> Tensor:
    """Sum updates[i, k] · a[rows[i, k]] over k; (q, length, p), (q, length), (n, p), to (q, p) in float64."""
    q, length, p = updates.shape
    out = torch.empty(q, p, dtype=torch.float64)
    i64 = ctypes.c_int64
    function = _function("gathered_products", a.dtype)
    function(
        _pointer(updates), _pointer(rows), i64(q), i64(length), i64(p), _pointer(a), _pointer(out),
        _threads(updates.numel()),
    )  # fmt: skip
    return out
