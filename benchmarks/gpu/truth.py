"""Stage a: the findings of `apviz doctor`, and every engine against dense float64 on the CPU.

Every kernel at d = 3, 13 and 90: products with 1 and 16 right-hand sides, a block, and derivatives in the inputs; the
error is relative to the largest number of each.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import psutil
import torch

import apviz
from apviz import doctor
from apviz.kernels import KERNELS, Kernel
from apviz.operators import OPERATORS, Operator
from apviz.operators.keops import FORMULAS
from apviz.operators.tiled import TiledOperator
from benchmarks.gpu.report import RESTART, Cell, Report, failure, is_broken
from benchmarks.gpu.timing import why_no_keops

INPUTS, SIDES, NOISE = (3, 13, 90), (1, 16), 0.1
#: a number below which an error is absolute: of a compact kernel of 90 inputs all derivatives are about 0
LEAST = 1e-6
ROWS, TINY_ROWS, BLOCK = 1_100, 150, 130
WORKERS = 8
#: seconds that solves and speeds of `apviz doctor` need at least
DOCTOR_SECONDS = 6.0
ENGINES = {
    "fused": (torch.float32, torch.float64), "fused-tf32x3": (torch.float32,), "tiled": (torch.float32, torch.float64),
    "keops": (torch.float32, torch.float64),
}  # fmt: skip
OF_REGISTRY = tuple(KERNELS)
OTHERS = (
    "piecewise 0", "piecewise 2", "linear", "polynomial", "periodic", "cosine", "white", "sum", "product",
    "spectral mixture",
)  # fmt: skip
#: kernels of several parts, which Triton compiles for up to half a minute
COMPOSITE = OTHERS[-4:]


class Case(NamedTuple):
    """An engine, a kernel and a number of inputs."""

    engine: str
    dtype: str
    kernel: str
    d: int

    @property
    def name(self) -> str:
        return f"{self.engine} {self.dtype} {self.kernel} d={self.d}"


def cases(tiny: bool) -> list[Case]:
    """Return all cases: those of few inputs first, those that compile long, or with KeOps, last."""
    kernels = ("matern52", "rbf", "product") if tiny else (*OF_REGISTRY, *OTHERS)
    found = [
        Case(engine, str(dtype).removeprefix("torch."), kernel, d)
        for d in INPUTS[: 2 if tiny else None] for engine, dtypes in ENGINES.items() for kernel in kernels
        for dtype in dtypes if is_tried(engine, kernel, dtype, d)
    ]  # fmt: skip
    return sorted(found, key=lambda case: (case.engine == "keops", case.kernel in COMPOSITE))


def is_tried(engine: str, kernel: str, dtype: torch.dtype, d: int) -> bool:
    """Test whether a case runs: cases that compile slowly do not run at every d."""
    if d == INPUTS[0] or engine == "tiled":
        return True
    if engine == "keops":
        return dtype == torch.float32 and kernel in ("matern52", "rbf")
    return kernel not in COMPOSITE


def kernel_of(name: str, d: int) -> Kernel:
    """Return a kernel by the name in `OF_REGISTRY` or `OTHERS`, at scales that suit d inputs in [−1, 1]."""
    scale = 0.5 * math.sqrt(d)
    if name in OF_REGISTRY:
        if name.startswith("piecewise"):
            scale *= 4  # whose entries are zero at a distance of one lengthscale
        lengthscale = tuple(scale * (1 + 0.5 * i / d) for i in range(d))
        return KERNELS[name](lengthscale=lengthscale, outputscale=1.3)
    some = [0, 1]
    made: dict[str, Any] = {
        "linear": lambda: apviz.Linear(lengthscale=scale), "polynomial": lambda: apviz.Polynomial(degree=3),
        "periodic": lambda: apviz.Periodic(lengthscale=1.2, period=0.9).on(0),
        "cosine": lambda: apviz.Cosine(period=3.0).on(0),
        "white": lambda: apviz.Matern52(lengthscale=scale) + 0.3 * apviz.White(),
        "sum": lambda: 2.0 * apviz.Matern32(lengthscale=0.8).on(some) + apviz.RBF(lengthscale=scale),
        "product": lambda: apviz.Matern52(lengthscale=0.9).on(some) * apviz.Periodic(period=0.7).on(2),
        "spectral mixture": lambda: apviz.SpectralMixture(
            weights=(0.6, 0.4), means=[[0.2], [0.5]], scales=[[0.1], [0.3]]
        ).on(0),
        "piecewise 0": lambda: apviz.PiecewisePolynomial(q=0, lengthscale=2 * scale),
        "piecewise 2": lambda: apviz.PiecewisePolynomial(q=2, lengthscale=2 * scale),
    }  # fmt: skip
    return made[name]()


def errors(case: Case, device: str, tiny: bool) -> Cell:
    """Return the relative errors of one case."""
    if case.engine == "keops" and case.kernel not in FORMULAS:
        return {"reason": "KeOps does not have this kernel"}
    if case.engine.startswith("fused") and device == "cpu":
        return {"reason": "fused kernels need a GPU"}
    if case.engine == "keops" and (why := why_no_keops(device)):
        return {"reason": why}
    n, dtype = TINY_ROWS if tiny else ROWS, getattr(torch, case.dtype)
    generator = torch.Generator().manual_seed(case.d)
    x = (2 * torch.rand(n, case.d, generator=generator, dtype=torch.float64) - 1).to(dtype).double()
    u = torch.randn(n, max(SIDES), generator=generator, dtype=torch.float64).to(dtype).double()
    kernel = kernel_of(case.kernel, case.d)
    k = kernel(x)
    k.diagonal().add_(NOISE)
    operator = OPERATORS[case.engine](x.to(device, dtype), kernel, NOISE)
    found: dict[str, float] = {}
    for sides in SIDES:
        operator.prepare(sides)
        some = u[:, :sides].contiguous()
        found[f"product, {sides}"] = relative(operator.matmul(some.to(device, dtype)), k @ some)
    rows = slice(7, 7 + BLOCK)
    found["columns, 16"] = relative(operator.columns_matmul(rows, u[rows].to(device, dtype)), k[:, rows] @ u[rows])
    if case.engine != "keops":
        found["block"] = relative(operator.block(rows), k[rows, rows])
        found["derivatives"] = derivatives(operator, x, kernel, u, device)
    worst, allowed = max(found.values()), doctor.ALLOWED[dtype]
    verdict = "right" if worst <= allowed else f"WRONG, {allowed:.0e} allowed"
    return {"errors": found, "worst": worst, "right": worst <= allowed, "summary": f"{worst:.1e} {verdict}"}


def derivatives(operator: Operator, x: torch.Tensor, kernel: Kernel, u: torch.Tensor, device: str) -> float:
    """Return the relative error of derivatives in the features, of a bilinear form in K."""
    exact = TiledOperator(x, kernel, NOISE, compiled=False, direct=True)
    a, b = u[:, :3].contiguous(), u[:, 3:6].contiguous()
    true = exact._gradients(exact.inputs, exact.inputs, a, b).features
    given = (part.to(device, operator.x.dtype) for part in (a, b))
    return relative(operator._gradients(operator.inputs, operator.inputs, *given).features, true)


def relative(found: torch.Tensor, true: torch.Tensor) -> float:
    error = (found.double().cpu() - true).abs().max() / true.abs().max().clamp_min(LEAST)
    return float(f"{float(error):.3g}")


# --- several processes: most of the time is Triton's compiler ---------------------------------------------------------


def work(device: str, tiny: bool) -> None:
    """Answer the numbers of cases on standard input, one JSON line each."""
    torch.set_num_threads(1)
    every = cases(tiny)
    for number in json.loads(sys.stdin.read()):
        try:
            cell = errors(every[number], device, tiny)
        except Exception as error:
            cell = failure(error)
        print(json.dumps({"case": number, "cell": cell}), flush=True)
        if "traceback" in cell and is_broken(device):
            sys.exit(RESTART)


def serve(report: Report, numbers: list[int]) -> None:
    """Give numbers of cases to a process, a new one if it ends early, and keep its answers."""
    every = cases(report.tiny)
    command = [sys.executable, "-u", "-m", "benchmarks.gpu.truth", report.device, str(int(report.tiny))]
    while numbers and report.seconds_left() > 0:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        limit = threading.Timer(max(0.0, report.seconds_left()), end_tree, (process.pid,))
        limit.start()
        process.stdin.write(json.dumps(numbers))
        process.stdin.close()
        for answer in answers(process.stdout):
            numbers.remove(answer["case"])
            report.add(every[answer["case"]].name, answer["cell"])
        status = process.wait()
        limit.cancel()
        if status not in (0, RESTART) and numbers and report.seconds_left() > 0:
            report.skip(every[numbers.pop(0)].name, f"its process ended with status {status}")
    for number in numbers:
        report.skip(every[number].name, "not reached within the budget")


def end_tree(pid: int) -> None:
    """End a process and its descendants: a compiler among them would keep its pipe open."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (*process.children(recursive=True), process):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()


def answers(lines: Any) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith('{"case"'):
            yield json.loads(line)


def run(report: Report) -> None:
    device = torch.device(report.device)
    for finding in doctor.machine():
        report.measure(f"doctor: {finding.subject}", partial(told, finding))
    if not report.tiny:
        diagnose(report, doctor.solves(device))
    left = [(number, case) for number, case in enumerate(cases(report.tiny)) if case.name not in report.entries]
    ours = [number for number, case in left if case.engine != "keops"]
    workers = 1 if report.tiny else max(1, min(WORKERS, (os.cpu_count() or 1) // 2))
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda at: serve(report, ours[at::workers]), range(workers)))
    if not report.tiny:
        diagnose(report, tried(device))
    # one process: several would compile the same files at once
    serve(report, [number for number, case in left if case.engine == "keops"])
    if not report.tiny and device.type != "cpu":
        diagnose(report, tried(torch.device("cpu")))
        diagnose(report, doctor.solves(torch.device("cpu")))


def tried(device: torch.device) -> Iterator[doctor.Finding]:
    """Yield what `apviz doctor` finds of each engine of a device; the stage itself has KeOps."""
    for name, engine in doctor.engines(device, keops=False).items():
        yield doctor.try_engine(name, engine, device, {})


def diagnose(report: Report, findings: Iterator[doctor.Finding]) -> None:
    """Keep findings of `apviz doctor` while there is time."""
    while report.seconds_left() > DOCTOR_SECONDS:
        finding = next(findings, None)
        if finding is None:
            return
        report.measure(f"doctor: {finding.subject}", partial(told, finding))


def told(finding: doctor.Finding) -> Cell:
    return {
        "found": finding.found, "advice": finding.advice, "wrong": finding.is_wrong,
        "summary": ("WRONG: " if finding.is_wrong else "") + finding.found,
    }  # fmt: skip


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2] == "1")
