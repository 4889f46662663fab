"""Root attributes of a trace: what was solved, with which settings, where, when and with which libraries."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from apviz.kernels import Stationary
from apviz.kernels import to_plain as kernel_to_plain
from apviz.solvers.run import Run
from apviz.solvers.serialization import to_plain
from apviz.tracing.schema import INTERRUPTED, SCHEMA_VERSION

LIBRARIES = ("apviz", "torch", "numpy", "scipy", "pykeops", "xarray", "zarr")


def solve_attributes(run: Run) -> dict[str, Any]:
    """Return the root attributes of a solve: what was solved, with which settings, where."""
    system, solver = run.system, run.solver
    kernel = system.kernel
    attrs: dict[str, Any] = surroundings(system.device, system.dtype) | {
        "dataset": system.dataset,
        "data": system.fingerprint(),
        "n": system.n,
        "d": system.d,
        "kernel": kernel.name,
        "lengthscale": [],
        "outputscale": system.operator.largest_signal,
        "noise": system.noise,
        "right_hand_sides": system.b.shape[1],
        "rhs_norms": run.rhs_norms.tolist(),
        "method": solver.method.plain(),
        "method_name": solver.method.name,
        "method_details": solver.method.details,
        "solver": solver.name,
        "solver_settings": json.dumps(to_plain(solver, strict=False)),
        "choices": json.dumps(run.choices),
        "operator": system.operator.name,
        "engine": run.operator.engine,
        "work_converts_seconds": run.operator.converts_seconds,
        "recursion_dtype": str(run.operator.x.dtype).removeprefix("torch."),
        "entry_rounding": run.operator.entry_rounding,
        "setup_work": run.setup_work,
        "setup_seconds": run.setup_seconds,
        "initial_energy": run.initial_energy,
    }
    if isinstance(kernel, Stationary):
        scales = kernel.lengthscale if isinstance(kernel.lengthscale, tuple) else (kernel.lengthscale,)
        attrs |= {"lengthscale": list(scales), "outputscale": kernel.outputscale}
        if kernel.parameters:
            attrs["kernel_parameters"] = json.dumps(kernel.parameters)
    try:
        kernel_to_plain(kernel)
    except ValueError:  # the class is not apviz's, whatever its name
        attrs["kernel_is_foreign"] = True
    if system.operator.noises is not None:
        attrs["largest_noise"] = float(system.operator.noises.max())
    if system.merged_rows is not None:
        attrs["merged_rows"] = system.merged_rows
    if system.preparation:
        attrs["data_preparation"] = system.preparation
    if system.seed is not None:
        attrs["seed"] = system.seed
    attrs["tol"] = run.stopping.tol
    if (ranks := run.operator.layout.ranks) > 1:
        attrs["ranks"] = ranks
    if run.factors is not None:
        attrs["factor_dtype"] = str(run.factors.dtype).removeprefix("torch.")
    return attrs


def surroundings(device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """Return the root attributes of every new trace: machine, date, libraries."""
    return {
        "schema_version": SCHEMA_VERSION,
        "apviz_version": _version("apviz"),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "status": INTERRUPTED,  # until a stop reason is reached
        "device": str(device),
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
        "dtype": str(dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "versions": json.dumps({"python": platform.python_version()} | {name: _version(name) for name in LIBRARIES}),
    }


@cache  # a look-up takes two milliseconds
def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "not installed"


@cache
def processor() -> str:
    """Return the name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
