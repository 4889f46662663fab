"""Run the stages, each in a process of its own within its budget; print one line an entry and a table last."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import psutil

from benchmarks.gpu.budgets import STAGES, Stage, budget, chosen
from benchmarks.gpu.report import RESTART, Report, replace
from benchmarks.gpu.suite import CHOSEN
from benchmarks.machine import RESULTS

LOG = "log.txt"
#: seconds without which a broken stage is not started again
LEAST_SECONDS = 8.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--minutes", type=float, default=8.0, help="minutes of all stages together")
    parser.add_argument("--stages", default="", help=", ".join(f"{one.letter} ({one.name})" for one in STAGES))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu", help="folder of the results")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the run itself")
    parser.add_argument("--tests", nargs="+", default=(), help="files or folders for the suite, if not all")
    parser.add_argument("--inside", nargs=2, metavar=("STAGE", "SECONDS"), help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.inside:
        inside(a.inside[0], float(a.inside[1]), a)
        return 0
    try:
        stages = chosen(a.stages)
    except ValueError as error:
        parser.error(str(error))
    return outside(stages, a)


def inside(name: str, seconds: float, a: argparse.Namespace) -> None:
    """Run one stage in this process; imports are part of its seconds."""
    seconds -= time.time() - psutil.Process().create_time()
    report = Report(a.out / f"{name}.json", name, device=a.device, tiny=a.tiny, seconds=seconds)
    importlib.import_module(f"benchmarks.gpu.{name}").run(report)
    report.write(state="ended", at=None)


def outside(stages: list[Stage], a: argparse.Namespace) -> int:
    """Run the stages one after another until their minutes are over; return 1 where one did not end."""
    os.environ[CHOSEN] = " ".join(a.tests)
    a.out = a.out.resolve()
    a.out.mkdir(parents=True, exist_ok=True)
    end, states = time.monotonic() + 60 * a.minutes, {}
    with (a.out / LOG).open("a", buffering=1) as log:
        for at, stage in enumerate(stages):
            (a.out / f"{stage.name}.json").unlink(missing_ok=True)
            seconds = budget(end - time.monotonic(), stages[at:])
            print(f"== {stage.letter} {stage.name}: {seconds:.0f} s", flush=True)
            states[stage.name] = run_stage(stage.name, seconds, a, log)
    for part in a.out.glob("*.part"):  # a stage was killed as it wrote
        part.unlink()
    table(a.out, states)
    return int(any(state != "ended" for state in states.values()))


def run_stage(name: str, seconds: float, a: argparse.Namespace, log: IO[str]) -> str:
    """Run a stage, again where its CUDA context broke, and return how it ended; its file says so too."""
    end, path = time.monotonic() + seconds, a.out / f"{name}.json"
    while True:
        left = end - time.monotonic()
        status = run_process(name, left, a, log)
        if status != RESTART:
            break
        if end - time.monotonic() < LEAST_SECONDS:
            status = None
            break
    if status == 0:
        return "ended"
    state = f"killed at its budget of {seconds:.0f} s" if status is None else f"ended with status {status}"
    mark(path, name, state)
    return state


def command(name: str, seconds: float, a: argparse.Namespace) -> list[str]:
    """Return the command line of the process of a stage."""
    words = [sys.executable, "-u", "-m", "benchmarks.gpu", "--inside", name, str(seconds), "--device", a.device]
    return [*words, "--out", str(a.out), *(["--tiny"] if a.tiny else [])]


def run_process(name: str, seconds: float, a: argparse.Namespace, log: IO[str]) -> int | None:
    """Run the process of a stage and return its exit status, or None where it was killed at its budget."""
    process = subprocess.Popen(
        command(name, seconds, a), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    reader = threading.Thread(target=copy_lines, args=(process.stdout, f"[{name}]", log), daemon=True)
    reader.start()
    try:
        status: int | None = process.wait(max(seconds, 0.1))
    except subprocess.TimeoutExpired:
        status = None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also what the stage started
        process.wait()
    reader.join(5)
    return status


def copy_lines(lines: IO[str], prefix: str, log: IO[str]) -> None:
    """Copy all lines to the log, those of entries to the screen."""
    for line in lines:
        log.write(line)
        if line.startswith(prefix):
            print(line, end="", flush=True)


def mark(path: Path, name: str, state: str) -> None:
    """Say in the file of a stage how it ended, and which entry was running then."""
    found = json.loads(path.read_text()) if path.exists() else {"stage": name, "entries": {}, "machine": None}
    if at := found.get("at"):
        found["entries"].setdefault(at, {"reason": f"the stage was {state} during it"})
    replace(path, found | {"state": state, "at": None})
    print(f"[{name}] {state}", flush=True)


def table(out: Path, states: dict[str, str]) -> None:
    """Print how every stage ended, with its numbers of entries."""
    print(f"\n{'stage':10} {'measured':>8} {'without':>8} {'seconds':>8}  state")
    for name, state in states.items():
        path = out / f"{name}.json"
        found = json.loads(path.read_text()) if path.exists() else {"entries": {}}
        without = sum("reason" in cell for cell in found["entries"].values())
        measured = len(found["entries"]) - without
        print(f"{name:10} {measured:8} {without:8} {found.get('seconds', 0):8}  {state}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
