"""Stage c: kernel entries a second of products, next to the bound counted from machine code and to measured ceilings.

Products K U and K[:, I] U, Matérn-5/2, random data: every engine in float32, the fused one in float64 too; `cuBLAS`
multiplies stored columns of K, whose evaluation it does not pay for: the yardstick of reading memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import apviz
from apviz.operators import OPERATORS
from benchmarks.gpu.report import Cell, Report
from benchmarks.gpu.timing import median_seconds, synchronize, why_no_keops

INPUTS, SIDES = (13, 3, 90), (16, 1)
#: the engine and dtype of a name
ENGINES = {
    "fused": ("fused", torch.float32), "fused-tf32x3": ("fused-tf32x3", torch.float32),
    "fused float64": ("fused", torch.float64), "tiled": ("tiled", torch.float32), "keops": ("keops", torch.float32),
}  # fmt: skip
#: the dtype of a bound, and the names it is for
BOUNDS = {"fp32": ("fused", "fused-tf32x3"), "fp64": ("fused float64",)}
#: seconds that compiling with KeOps may take
KEOPS_SECONDS = 12.0


class Sizes(NamedTuple):
    """Rows; columns of K[:, I]; rows of a matrix product; bytes of a copy."""

    n: int
    columns: int
    square: int
    copied: int


FULL, TINY = Sizes(100_000, 2_000, 8_192, 2**31), Sizes(2_000, 200, 256, 2**22)


def run(report: Report) -> None:
    sizes = TINY if report.tiny else FULL
    torch.backends.cuda.matmul.allow_tf32 = False
    ceilings(report, sizes)
    # what is fast to measure first: all engines but KeOps, which compiles
    for engine in ENGINES:
        for d in INPUTS:
            for sides in SIDES:
                name = f"{engine} d={d} sides={sides}"
                if why := missing(engine, report.device):
                    report.skip(name, why)
                    continue
                needs = KEOPS_SECONDS if engine == "keops" and not report.tiny else 1.0
                report.measure(name, lambda e=engine, d=d, p=sides: rates(e, d, p, sizes, report.device), needs)
        if engine == "tiled":
            stored(report, sizes)
            bounds(report)


def missing(engine: str, device: str) -> str:
    if engine.startswith("fused") and device != "cuda":
        return "fused kernels need a GPU"
    return why_no_keops(device) if engine == "keops" else ""


def data(
    d: int, sides: int, n: int, device: str, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(d)
    x = 2 * torch.rand(n, d, generator=generator) - 1
    return x.to(device, dtype), torch.randn(n, sides, generator=generator).to(device, dtype)


def rates(name: str, d: int, sides: int, sizes: Sizes, device: str) -> Cell:
    """Return kernel entries a second of K U and of K[:, I] U."""
    engine, dtype = ENGINES[name]
    x, u = data(d, sides, sizes.n, device, dtype)
    operator = OPERATORS[engine](x, apviz.Matern52(lengthscale=0.3 * math.sqrt(d)), 0.1)
    operator.prepare(sides)
    some = u[: sizes.columns].contiguous()
    found: Cell = {"n": sizes.n, "columns": sizes.columns, "engine": operator.engine}
    jobs: dict[str, tuple[Callable[[], Any], int]] = {
        "K[:, I] U": (lambda: operator.columns_matmul(slice(0, sizes.columns), some), sizes.columns),
        "K U": (lambda: operator.matmul(u), sizes.n),
    }
    for name, (job, columns) in jobs.items():
        seconds = median_seconds(job, device)
        found[name] = {"seconds": seconds, "entries_per_s": sizes.n * columns / seconds}
    rate = {name: found[name]["entries_per_s"] for name in jobs}
    return found | {"summary": ", ".join(f"{name} {each:.3g} entries/s" for name, each in rate.items())}


def ceilings(report: Report, sizes: Sizes) -> None:
    """Measure the bandwidth of a copy and the rate of a float32 matrix product without TF32."""
    device = report.device

    def copy() -> Cell:
        a = torch.rand(sizes.copied // 4, device=device)
        b = torch.empty_like(a)
        seconds = median_seconds(lambda: b.copy_(a), device)
        rate = 2 * sizes.copied / seconds
        return {"seconds": seconds, "bytes_per_s": rate, "summary": f"{rate / 1e12:.2f} TB/s, read and written"}

    def product() -> Cell:
        a, b = (torch.randn(sizes.square, sizes.square, device=device) for _ in range(2))
        seconds = median_seconds(lambda: a @ b, device)
        rate = 2 * sizes.square**3 / seconds
        return {"seconds": seconds, "flop_per_s": rate, "summary": f"{rate / 1e12:.1f} TFLOP/s, TF32 off"}

    report.measure("ceiling: copy", copy)
    report.measure("ceiling: float32 matrix product", product)


def stored(report: Report, sizes: Sizes) -> None:
    """Multiply stored columns of K, and make X Xᵀ, by cuBLAS."""
    device = report.device

    def multiply(sides: int) -> Cell:
        k = torch.rand(sizes.n, sizes.columns, device=device)
        u = torch.randn(sizes.columns, sides, device=device)
        seconds = median_seconds(lambda: k @ u, device)
        rate = k.numel() / seconds
        return {"seconds": seconds, "entries_per_s": rate, "summary": f"{rate:.3g} entries/s"}

    def distances(d: int) -> Cell:
        x, _ = data(d, 1, sizes.n, device)
        z, out = x[: sizes.columns].T.contiguous(), torch.empty(sizes.n, sizes.columns, device=device)
        seconds = median_seconds(lambda: torch.mm(x, z, out=out), device)
        rate = out.numel() / seconds
        return {"seconds": seconds, "entries_per_s": rate, "summary": f"{rate:.3g} entries/s"}

    for sides in SIDES:
        report.measure(f"cuBLAS stored K[:, I] U sides={sides}", lambda p=sides: multiply(p))
    for d in INPUTS:
        report.measure(f"cuBLAS X Xᵀ d={d}", lambda d=d: distances(d))
    synchronize(device)


def bounds(report: Report) -> None:
    """Count the fused kernels' instructions, and hold the measured rates against the bound."""
    for dtype, compared in BOUNDS.items():
        for d in INPUTS:
            for sides in SIDES:
                name = f"bound{compared[0].removeprefix('fused')} d={d} sides={sides}"
                if report.device != "cuda":
                    report.skip(name, "the machine code is that of a GPU: not counted on a CPU")
                    continue
                report.measure(name, lambda t=dtype, d=d, p=sides: bound(report, t, d, p), 2.0)


def bound(report: Report, dtype: str, d: int, sides: int) -> Cell:
    from benchmarks.roofline import GPUS, row

    about = torch.cuda.get_device_properties(0)
    capability = 10 * about.major + about.minor
    if capability not in GPUS:
        return {"reason": f"benchmarks/roofline.py does not know compute capability {about.major}.{about.minor}"}
    found: Cell = row(capability, "matern52", d, sides, dtype)
    most = found["entries per second"] * about.multi_processor_count / GPUS[capability][1]
    shares = {}
    for engine in BOUNDS[dtype]:
        cell = report.entries.get(f"{engine} d={d} sides={sides}", {})
        if "K U" in cell:
            shares[engine] = round(cell["K U"]["entries_per_s"] / most, 3)
    reached = ", ".join(f"{engine} reaches {share:.0%}" for engine, share in shares.items())
    return {"counted": found, "entries_per_s": most, "shares": shares, "summary": f"{most:.3g} entries/s; {reached}"}
