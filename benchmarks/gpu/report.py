"""The JSON file of one stage: written after every entry, so that a killed stage keeps what it measured."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import describe, version

#: exit status of a stage whose CUDA context is broken: the runner starts it again, and it skips what it has
RESTART = 75
#: seconds before the budget's end at which a stage starts nothing more
GRACE = 2.0
LIBRARIES = ("triton", "numpy", "gpytorch", "keopscore", "xarray", "zarr", "pytest")

Cell = dict[str, Any]


def machine(device: str) -> dict[str, Any]:
    """Return the machine of a run: GPU, driver, and versions of the libraries."""
    found = describe()
    found["versions"] |= {name: version(name) for name in LIBRARIES}
    found |= {"device": device, "cuda": torch.version.cuda, "driver": None}
    if device == "cuda" and torch.cuda.is_available():
        about = torch.cuda.get_device_properties(0)
        found |= {
            "driver": _driver(), "capability": f"{about.major}.{about.minor}",
            "multiprocessors": about.multi_processor_count, "gpu_memory_gib": round(about.total_memory / 2**30, 1),
        }  # fmt: skip
    return found


def _driver() -> str | None:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip() or None
    except (OSError, subprocess.TimeoutExpired):
        return None


class Report:
    """Entries of one stage, kept in a JSON file.

    Args:
        path: the file; entries that it already holds are not measured again.
        seconds: budget of the stage.

    Attributes:
        entries: by name; one without a number has a "reason", one that failed also a "traceback".
    """

    def __init__(self, path: Path, stage: str, *, device: str, tiny: bool, seconds: float) -> None:
        self.path, self.stage, self.device, self.tiny = path, stage, device, tiny
        self._began, self._seconds, self._lock = time.monotonic(), seconds, threading.RLock()
        before = json.loads(path.read_text()) if path.exists() else {}
        self.entries: dict[str, Cell] = before.get("entries", {})
        self._about: dict[str, Any] = {
            "stage": stage, "state": "running", "at": None, "budget_s": round(seconds, 1), "tiny": tiny,
            "restarts": before.get("restarts", -1) + 1, "machine": machine(device),
        }  # fmt: skip
        self.write()

    def seconds_left(self) -> float:
        """Return the seconds in which work may still start."""
        return self._seconds - GRACE - (time.monotonic() - self._began)

    def write(self, **changes: Any) -> None:
        """Write the file whole, then move it into place."""
        with self._lock:
            self._about |= changes
            self._about["seconds"] = round(time.monotonic() - self._began, 1)
            replace(self.path, self._about | {"entries": self.entries})

    def add(self, name: str, cell: Cell) -> None:
        """Keep an entry, and print one line of it."""
        with self._lock:
            self.entries[name] = cell
            self.write(at=None)
        text = cell.get("summary") or cell.get("reason", "")
        print(f"[{self.stage}] {name}: {str(text).splitlines()[0][:150] if text else 'done'}", flush=True)

    def skip(self, name: str, reason: str) -> None:
        """Keep an entry without a number."""
        if name not in self.entries:
            self.add(name, {"reason": reason})

    def measure(self, name: str, job: Callable[[], Cell], needs: float = 0.0) -> Cell | None:
        """Run a job and keep what it returns, or why it failed; return the cell where the job succeeded.

        Args:
            needs: seconds without which the job does not start.
        """
        if name in self.entries:
            return None
        if self.seconds_left() < needs or self.seconds_left() <= 0:
            self.skip(name, f"not started: {max(0.0, self.seconds_left()):.0f} s of the budget were left")
            return None
        self.write(at=name)
        began = time.monotonic()
        try:
            cell = job()
        except Exception as error:
            self.add(name, failure(error) | {"entry_s": round(time.monotonic() - began, 2)})
            if is_broken(self.device):
                self.write(state="restarted after a CUDA error")
                raise SystemExit(RESTART) from error
            return None
        self.add(name, cell | {"entry_s": round(time.monotonic() - began, 2)})
        return cell


def replace(path: Path, content: Any) -> None:
    """Write JSON so that a reader finds the old file or the new one, never a part."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1, default=str) + "\n")
    os.replace(part, path)


def failure(error: BaseException) -> Cell:
    """Return the entry of a job that raised."""
    text = "".join(traceback.format_exception(error))
    return {"reason": f"failed: {type(error).__name__}: {str(error)[:500]}", "traceback": text[-6000:]}


def is_broken(device: str) -> bool:
    """Test whether the CUDA context of this process is lost; memory that ran out is not a reason."""
    if device != "cuda":
        return False
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return float(torch.ones(1, device="cuda").add_(1).cpu()) != 2.0
    except Exception:
        return True
