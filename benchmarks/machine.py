"""The machine a figure was measured on, and how results are kept."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
import torch

RESULTS = Path(__file__).with_name("results")


def describe() -> dict[str, Any]:
    """Processor, cores, memory, versions, and how busy the machine was."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    return {
        "processor": model,
        "cores": psutil.cpu_count(logical=False),
        "threads": torch.get_num_threads(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("apviz", "torch", "pykeops")},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def version(package: str) -> str | None:
    """Return the version of a package, or None where it is not installed: apviz may run from its checkout."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def keep(part: str, results: Any, machine: dict[str, Any] | None = None, *, show: bool = True) -> None:
    """Write results next to a description of the machine, by default `describe()`, and print them."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"machine": machine or describe(), "results": results}, indent=1)
    (RESULTS / f"{part}.json").write_text(text + "\n")
    if show:
        print(json.dumps(results, indent=1))


def median_seconds(job: Callable[[], object], repeats: int = 5) -> float:
    """The median time of a job that has run once before."""
    job()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        job()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return statistics.median(times)
