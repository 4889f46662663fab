"""The journey in every place of the campaign `install`, by a Python with only apviz and its extras.

Everything is imported, a small solve and a small training are right, a table is compared, reported and shown by the
command line, and the dashboard answers. One line of JSON states the number of files left, or the error.
"""

from __future__ import annotations

import importlib
import json
import locale
import os
import pkgutil
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import warnings
from pathlib import Path

import numpy as np
import torch

import apviz
from apviz.operators import fused
from apviz.partitions import KDTree

#: timeout of a command, in seconds
ENDS_WITHIN = 240
#: with ASCII file names, other names cannot be opened
TABLE = "données.csv" if sys.getfilesystemencoding() == "utf-8" else "donnees.csv"
#: forbidden characters and names of files on Windows
FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f]|[ .]$')
DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?$", re.IGNORECASE)
COMMANDS = ("compare", "advise", "datasets", "fit", "predict", "experiment", "report", "show", "doctor", "dashboard")
#: largest length of a path below the folder of a user; Windows allows 260 characters in total
LONGEST = 120


def everything_is_imported() -> None:
    """Import every module and every public name, which are loaded lazily; kernels for GPUs where their compiler is."""
    left_out = ["__main__", *([] if fused.is_installed() else ["fused_entries", "fused_kernels"])]
    for module in pkgutil.walk_packages(apviz.__path__, "apviz."):
        if module.name.rpartition(".")[2] not in left_out:
            importlib.import_module(module.name)
    for name in apviz.__all__:
        getattr(apviz, name)


def a_solve_and_a_training_are_right() -> None:
    """Check a residual by NumPy's sums, and that a training learns."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(400, 2))
    y = np.sin(6 * x[:, 0]) + 0.1 * rng.standard_normal(400)
    system = apviz.KernelSystem(x, y, apviz.Matern32(lengthscale=0.4), noise=0.01, dtype=torch.float64, device="cpu")
    blocks = apviz.AlternatingProjection(block_size=50, partition=KDTree(overlap=0.5), tol=1e-6)
    for solver in (blocks, apviz.ConjugateGradient(tol=1e-6)):
        solution = apviz.solve(system, solver)
        r = np.sqrt(3) * np.linalg.norm(x[:, None] - x[None], axis=2) / 0.4
        matrix = (1 + r) * np.exp(-r) + 0.01 * np.eye(400)
        residual = y - matrix @ solution.weights.numpy()
        assert np.linalg.norm(residual) <= 1.01e-6 * np.linalg.norm(y), solver
    process = apviz.GaussianProcess(solver=apviz.Cholesky(), max_steps=5, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # five steps do not settle
        mean = process.fit(x, y).predict(x)
    assert np.std(y - mean) < 0.5 * np.std(y)


def told(*command: str, fails: bool = False) -> str:
    """Return the output of a command of apviz, which must end as expected, without a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "apviz", *command], capture_output=True, timeout=ENDS_WITHIN, check=False
    )
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert (done.returncode != 0) is fails and "Traceback" not in said, f"apviz {' '.join(command)}: {said[-2000:]}"
    return said


def a_table_is_compared_reported_and_shown() -> None:
    """Compare, report and show a table by the command line."""
    rng = np.random.default_rng(1)
    x, noise = rng.uniform(size=(300, 2)), 0.1 * rng.standard_normal(300)
    rows = [f"{a:.3f};{b:.3f};{a + b * b + e:.3f}" for (a, b), e in zip(x, noise, strict=True)]
    Path(TABLE).write_text("\n".join(["größe;Stadt;prix", *rows]), "utf-8")
    told(
        "compare", "--dataset", TABLE, "--target", "prix", "--methods", "overlap,cg,cholesky",
        "--block-sizes", "50", "--out", "runs",
    )  # fmt: skip
    traces = sorted(Path("runs").glob("*.zarr"))
    assert len(traces) == 3, traces
    for path in traces:
        assert apviz.open_trace(path).attrs["stop_reason"] == "converged", path
        told("show", str(path))
    assert TABLE in Path("runs/report.html").read_text("utf-8")
    told("report", "runs")
    told("advise", TABLE, "--target", "prix")
    told("datasets")
    told("doctor")


def every_command_has_help() -> None:
    """Check that the help of every command can be printed, which typer and rich do together."""
    for name in COMMANDS:
        told(name, "--help")


def the_dashboard_answers() -> None:
    """Check that the dashboard shows the verdict on existing runs and that Ctrl-C ends it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "apviz", "dashboard", "--runs", "runs", "--port", str(port), "--no-show"]
    with open("dashboard.txt", "wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        page = _page_of(server, f"http://127.0.0.1:{port}/")
    finally:
        server.send_signal(signal.SIGTERM if os.name == "nt" else signal.SIGINT)
        server.wait(60)
    said = Path("dashboard.txt").read_text("utf-8", "replace")
    assert "apviz-first" in page and "Traceback" not in said, said[-2000:]


def _page_of(server: subprocess.Popen[bytes], url: str) -> str:
    until = time.monotonic() + ENDS_WITHIN
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=60) as answer:
                return str(answer.read().decode())
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"the dashboard did not answer: {Path('dashboard.txt').read_text('utf-8', 'replace')[-2000:]}")


def what_is_fetched_ends_in_a_sentence_where_there_is_no_network() -> None:
    """Check that a failed download says where to put data by hand."""
    if "APVIZ_OFFLINE" in os.environ:
        said = told("compare", "--dataset", "kin40k", "--methods", "cg", "--rows", "500", fails=True)
        assert "APVIZ_DATA" in said, said


def every_name_is_one_on_windows_and_macos() -> None:
    """Check names: no forbidden characters, no devices, no two that differ only by case, and none too long."""
    paths = [path for path in Path().rglob("*") if "__pycache__" not in path.parts]
    for path in paths:
        assert not FORBIDDEN.search(path.name) and not DEVICES.match(path.name), path
        assert len(str(path)) <= LONGEST, path
    assert len({str(path).casefold() for path in paths}) == len(paths)


STEPS = (
    everything_is_imported, a_solve_and_a_training_are_right, a_table_is_compared_reported_and_shown,
    every_command_has_help, the_dashboard_answers,
    what_is_fetched_ends_in_a_sentence_where_there_is_no_network, every_name_is_one_on_windows_and_macos,
)  # fmt: skip


if __name__ == "__main__":
    locale.setlocale(locale.LC_ALL, "")
    for step in STEPS:
        try:
            step()
        except Exception as error:
            print(json.dumps({"fault": f"{step.__name__}: {type(error).__name__}: {error}"}))
            raise
    print(json.dumps({"files": sum(path.is_file() for path in Path().rglob("*"))}))
