"""Diagnosis of this machine: its equipment, the correctness and speed of every engine, and advice on problems."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import shutil
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Final

import psutil
import torch
from torch import Tensor

from apviz.kernels import KERNELS, Kernel
from apviz.memory import free_memory
from apviz.operators import DENSE_MAX_N, OPERATORS, Operator, fused, native, native_build
from apviz.operators.tiled import TiledOperator
from apviz.solvers import AlternatingProjection, Automatic, Cholesky, ConjugateGradient, Solver, attempt, overlapping
from apviz.system import KernelSystem
from apviz.tracing.attributes import processor

#: Largest accepted error of an engine, relative to the largest entry of a product in float64.
ALLOWED: Final = {torch.float32: 1e-4, torch.float64: 1e-11}
#: Sizes for correctness and speed: inputs; rows and columns of either.
INPUTS: Final = (1, 3, 13)
TRUE_ROWS, FAST_ROWS, FAST_COLUMNS, SIDES = 400, 20_000, 1_000, 16
#: Rows and σ² of the solved system.
SOLVED_ROWS, SOLVED_NOISE = 1_000, 0.1
#: Relative residual that the solves must reach.
TOL: Final = 1e-2
#: Share of the threads that the compiled engine uses on an idle machine, and load per core below which speeds are
#: meaningful.
USED, BUSY = 0.6, 0.5
#: Gibibytes of free memory below which blocks and stored matrices become small.
LITTLE_MEMORY = 2.0
#: Summary of the GPU runs.
RUN_ON_GPUS: Final = Path(__file__).with_name("run_on_gpus.json")
#: Optional packages, by the extra that installs them.
EXTRAS: Final = {
    "panel": "dashboard", "gpytorch": "gpytorch", "pykeops": "keops", "anywidget": "notebook", "h5py": "hdf5",
}  # fmt: skip

#: Textbook correlations (Rasmussen & Williams 2006, eq. 4.9 and 4.14 to 4.17), of the distance in lengthscales.
_TEXTBOOK: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "matern12": lambda r: torch.exp(-r),
    "matern32": lambda r: (1 + math.sqrt(3) * r) * torch.exp(-math.sqrt(3) * r),
    "matern52": lambda r: (1 + math.sqrt(5) * r + 5 * r.square() / 3) * torch.exp(-math.sqrt(5) * r),
    "rbf": lambda r: torch.exp(-r.square() / 2),
}


@dataclass(frozen=True)
class Engine:
    """An engine, and the sizes to test it at."""

    make: Callable[[Tensor, Kernel, float], Operator]
    kernels: tuple[str, ...] = tuple(_TEXTBOOK)
    inputs: tuple[int, ...] = INPUTS
    dtypes: tuple[torch.dtype, ...] = tuple(ALLOWED)
    rows: int = FAST_ROWS


@dataclass(frozen=True)
class Finding:
    """Finding about a part of this machine, with a remedy if needed; wrong if apviz computes wrong numbers."""

    subject: str
    found: str
    advice: str = ""
    is_wrong: bool = False


def examine(*, keops: bool = True) -> Iterator[Finding]:
    """Examine this machine, test every engine and a few solves, and yield findings one by one; takes a minute.

    Products of every engine are compared with dense float64 matrices of textbook formulas. Relative to the largest
    entry, the error is at most 1e-4 in float32 and 1e-11 in float64. Speeds are millions of kernel entries per second,
    Matérn-5/2, 16 right-hand sides, float32, medians of three; other processes on the machine reduce them.

    Args:
        keops: Whether to test KeOps if it is installed, which compiles for some tens of seconds the first time.

    Examples:
        >>> from apviz.doctor import machine
        >>> next(machine()).subject
        'versions'
    """
    yield from machine()
    devices = [torch.device("cpu"), *([torch.device("cuda")] if torch.cuda.is_available() else [])]
    for device in devices:
        rates = dict[str, float]()
        for name, engine in engines(device, keops=keops).items():
            yield try_engine(name, engine, device, rates)
        yield from _of_speeds(rates, device)
    for device in devices:
        yield from solves(device)


# --- equipment --------------------------------------------------------------------------------------------------------


def machine() -> Iterator[Finding]:
    """Yield versions, cores, memory, compiler and GPU, without measuring anything."""
    packages = ("apviz", "torch", "numpy", "scipy", "xarray", "zarr", *EXTRAS)
    versions = {name: _version(name) for name in packages}
    there = [f"{name} {version}" for name, version in versions.items() if version]
    missing = [extra for name, extra in EXTRAS.items() if not versions[name]]
    yield Finding(
        "versions", f"Python {platform.python_version()}, {', '.join(there)}",
        f"for more: pip install 'apviz[{','.join(missing)}]'" if missing else "",
    )  # fmt: skip
    yield _cores()
    free, total = free_memory(torch.device("cpu")) / 2**30, psutil.virtual_memory().total / 2**30
    yield Finding(
        "memory", f"{free:.1f} GiB free for this process, of {total:.1f} GiB on this machine",
        "little memory is free: close other programs, or raise the limit of the container, batch job or `ulimit -v`"
        if free < LITTLE_MEMORY else "",
    )  # fmt: skip
    yield _compiler()
    yield Finding("CPU engine", native.origin())
    yield _gpu()
    yield Finding("apviz on GPUs", gpu_summary())


def gpu_summary() -> str:
    """Return a summary of GPU runs, which `python -m benchmarks.gpu.summary` writes from measurements."""
    return " ".join(json.loads(RUN_ON_GPUS.read_text(encoding="utf-8"))["sentences"])


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _cores() -> Finding:
    allowed = len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else os.cpu_count() or 1
    threads, load = torch.get_num_threads(), psutil.getloadavg()[0]
    advice = ""
    if threads < allowed // 2:
        advice = f"apviz uses {threads} of {allowed} cores: unset OMP_NUM_THREADS, or call torch.set_num_threads"
    elif load > BUSY * allowed:
        advice = f"other processes use the cores (load {load:.1f}): the speeds below are lower than usual"
    found = (
        f"{psutil.cpu_count(logical=False) or '?'} cores of {processor()}, {allowed} threads allowed, {threads} used"
    )
    return Finding("processor", found, advice)


def _has_compiler() -> bool:
    with contextlib.suppress(OSError):
        return bool(native_build.compiler())
    return False


def _compiler() -> Finding:
    try:
        found = " ".join(native_build.compiler())
    except OSError as error:
        faster = "products with sums of kernels" if native.prebuilt(None) else "products with the kernel"
        return Finding(
            "C++ compiler", str(error),
            f"install one (Debian: apt install g++; macOS: xcode-select --install): {faster} become 4 to 46 times as "
            "fast",
        )  # fmt: skip
    if native.library() is None:
        return Finding("C++ compiler", f"{found}, which does not build apviz's engine", "see the warning above")
    return Finding("C++ compiler", found)


def _gpu() -> Finding:
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(each) for each in range(torch.cuda.device_count())]
        return Finding("GPU", f"{', '.join(names)}; apviz uses the first, CUDA {torch.version.cuda}")
    if shutil.which("nvidia-smi"):
        advice = "torch is a build without CUDA, or older than the driver: install one from pytorch.org for this CUDA"
        return Finding("GPU", f"there is a driver, but torch {torch.__version__} sees no GPU", advice)
    return Finding("GPU", "none; the CPU is used")


# --- correctness and speed of engines ---------------------------------------------------------------------------------


def engines(device: torch.device, *, keops: bool) -> dict[str, Engine]:
    """Return the engines available on a device, by name."""
    found = {"stored matrix": Engine(OPERATORS["dense"], rows=DENSE_MAX_N)}
    if device.type == "cpu" and native.library() is not None:
        found["compiled tiles"] = Engine(TiledOperator)
    found["torch tiles"] = Engine(partial(TiledOperator, compiled=False))
    if device.type == "cuda" and fused.is_installed():
        found["fused kernels"] = Engine(OPERATORS["fused"])
    if keops and _version("pykeops") and _has_compiler():
        # KeOps compiles for every kernel, dtype and number of inputs
        found["KeOps"] = Engine(OPERATORS["keops"], ("matern52",), (3,), (torch.float32,))
    return found


def try_engine(name: str, engine: Engine, device: torch.device, rates: dict[str, float]) -> Finding:
    """Compare an engine's products with textbook formulas, and time them; write its speed at d = 3 to `rates`."""
    subject = f"{name} ({device.type})"
    try:
        worst = max(
            _error(engine, kernel, d, dtype, device) / ALLOWED[dtype]
            for kernel in engine.kernels for d in engine.inputs for dtype in engine.dtypes
        )  # fmt: skip
        speeds = [_rate(engine, d, device) for d in engine.inputs]
    except Exception as error:  # compilers, drivers and libraries may raise anything
        return Finding(subject, f"it failed: {type(error).__name__}: {error}", _instead(name), is_wrong=True)
    rates[name] = speeds[engine.inputs.index(3)]
    rate = ", ".join(f"{speed / 1e6:,.0f} at d = {d}" for d, speed in zip(engine.inputs, speeds, strict=True))
    if not worst <= 1:
        found = f"wrong: {worst:.1e} times what rounding explains; {rate} million entries a second"
        return Finding(subject, found, _instead(name), is_wrong=True)
    return Finding(subject, f"right; {rate} million entries a second")


def _instead(name: str) -> str:
    others = {
        "compiled tiles": "set CXX to another compiler, or to a name that does not exist to use torch tiles only",
        "KeOps": "do not use operator='keops', or clear its cache: pykeops.clean_pykeops()",
    }
    return others.get(name, "please report it with this table: https://github.com/apviz/apviz/issues")


def _error(engine: Engine, kernel: str, d: int, dtype: torch.dtype, device: torch.device) -> float:
    """Return the largest error of K U, relative to its largest entry."""
    generator = torch.Generator().manual_seed(d)
    x = torch.rand(TRUE_ROWS, d, generator=generator, dtype=torch.float64).to(dtype).double()
    u = torch.randn(TRUE_ROWS, 3, generator=generator, dtype=torch.float64).to(dtype).double()
    lengthscale, noise = 0.4 * math.sqrt(d), 0.1
    distance = torch.cdist(x / lengthscale, x / lengthscale, compute_mode="donot_use_mm_for_euclid_dist")
    exact = _TEXTBOOK[kernel](distance) @ u + noise * u
    operator = engine.make(x.to(device, dtype), KERNELS[kernel](lengthscale=lengthscale), noise)
    operator.prepare(3)
    product = operator.matmul(u.to(device, operator.x.dtype)).double().cpu()
    return float((product - exact).abs().max() / exact.abs().max())


def _rate(engine: Engine, d: int, device: torch.device) -> float:
    """Return the kernel entries per second of K[:, I] U."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(engine.rows, d, generator=generator).to(device)
    u = torch.randn(FAST_COLUMNS, SIDES, generator=generator).to(device)
    operator = engine.make(x, KERNELS["matern52"](lengthscale=0.4 * math.sqrt(d)), 0.1)
    operator.prepare(SIDES)
    taken = []
    for _ in range(4):
        started = time.perf_counter()
        operator.columns_matmul(slice(0, FAST_COLUMNS), u)
        if device.type == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - started)
    return engine.rows * FAST_COLUMNS / statistics.median(taken[1:])


def _of_speeds(rates: dict[str, float], device: torch.device) -> Iterator[Finding]:
    """Yield findings from comparing the speeds of engines, and the speed on one thread."""
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1 or "compiled tiles" not in rates:
        return
    torch.set_num_threads(1)
    try:
        alone = _rate(Engine(TiledOperator), 3, device)
    finally:
        torch.set_num_threads(threads)
    times = rates["compiled tiles"] / alone
    yield Finding(
        "threads", f"{threads} threads are {times:.1f} times as fast as one",
        "cores are shared with other processes, or are threads of one core: free them for apviz, or set "
        f"OMP_NUM_THREADS={max(1, round(times))}" if times < USED * threads else "",
    )  # fmt: skip


# --- solves -----------------------------------------------------------------------------------------------------------


def solves(device: torch.device) -> Iterator[Finding]:
    """Solve a small system with every kind of method, and check B − KW with textbook formulas."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(SOLVED_ROWS, 2, generator=generator, dtype=torch.float64)
    b = torch.sin(6 * x[:, :1]) + 0.1 * torch.randn(SOLVED_ROWS, 1, generator=generator, dtype=torch.float64)
    distance = torch.cdist(x / 0.2, x / 0.2, compute_mode="donot_use_mm_for_euclid_dist")
    k = _TEXTBOOK["matern52"](distance) + SOLVED_NOISE * torch.eye(SOLVED_ROWS, dtype=torch.float64)
    system = KernelSystem(x, b, KERNELS["matern52"](lengthscale=0.2), noise=SOLVED_NOISE, device=str(device))
    tried: dict[str, Solver] = {
        "alternating projection, the paper's": AlternatingProjection(block_size=300, tol=TOL),
        "alternating projection, overlapping": overlapping(tol=TOL), "conjugate gradients": ConjugateGradient(tol=TOL),
        "Cholesky": Cholesky(tol=TOL), "automatic choice": Automatic(tol=TOL),
    }  # fmt: skip
    for name, solver in tried.items():
        started, subject = time.perf_counter(), f"{name} ({device.type})"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the finding reports the stop reason
                solution = attempt(system, solver)
        except Exception as error:  # solvers may raise anything on a faulty machine
            yield Finding(subject, f"it failed: {type(error).__name__}: {error}", _instead(name), is_wrong=True)
            continue
        residual = float((b - k @ solution.weights.double().cpu()).norm() / b.norm())
        result = f"residual {residual:.1e} after {time.perf_counter() - started:.2f} s and {solution.work:.3g} work"
        if solution.converged and residual < 1.01 * TOL:
            yield Finding(subject, result)
        else:
            yield Finding(subject, f"wrong: {solution.stop_reason}, {result}", _instead(name), is_wrong=True)
