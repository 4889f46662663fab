"""Seconds from n rows to 2,000 predictions with standard deviations, next to scikit-learn, PyKrige and GPBoost.

`python -m benchmarks.prediction_seconds` runs the cells that `results/prediction_seconds.json` lacks, each in a process
of its own with one thread. Seconds are those of the processor, training included. Rivals may be installed for another
interpreter, named by `APVIZ_RIVALS`; a method that is not installed there is left out. A cell that takes longer than
`--limit` seconds of the processor is recorded as unfinished, and so are larger ones of its method.

`--tables` runs the cells of `results/prediction_tables.json` instead: apviz and GPBoost on registered data sets.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import RESULTS, describe, keep
from benchmarks.prediction_rivals import METHODS

SIZES = (1_000, 2_000, 5_000, 20_000, 116_000)
SHOWN = SIZES[:4]
#: packages by method, which must be importable
PACKAGES = {"apviz": "apviz", "scikit-learn": "sklearn", "GPBoost, Vecchia": "gpboost"}
#: methods that hold n × n numbers, PyKrige the distances also for near rows, and the rows up to which 16 GiB suffice
DENSE, MOST_ROWS = ("scikit-learn", "PyKrige", "PyKrige, 50 nearest rows"), 10_000
#: registered data sets, their rows to fit (or all others, if there are fewer) and to predict, and the methods
TABLES, TABLE_SIZES, TABLE_POINTS = ("protein", "kin40k", "bike", "china", "sgemm"), (5_000, 20_000), 2_000
TABLE_METHODS = ("apviz", "GPBoost, Vecchia")
RUNNER = Path(__file__).with_name("prediction_rivals.py")


def interpreter(method: str) -> str | None:
    """Return the interpreter that has a method's package; None if there is none."""
    package = PACKAGES.get(method, "pykrige")
    for each in (sys.executable, os.environ.get("APVIZ_RIVALS")):
        if each and subprocess.run([each, "-c", f"import {package}"], capture_output=True).returncode == 0:
            return each
    return None


def run(python: str, method: str, n: int, limit: int, *table: str) -> dict[str, Any]:
    """Run a cell, of the survey or of a table; it is killed beyond the limit of seconds of the processor."""
    environment = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")}
    done = subprocess.run(
        [python, "-P", str(RUNNER), method, str(n), *table], env=environment, capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5)),
    )  # fmt: skip
    if done.returncode < 0:
        return {"unfinished": limit}
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1][:200]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(cells: dict[str, dict[str, Any]]) -> list[str]:
    """Return the lines of the table of results in Markdown: seconds, RMSE, negative log likelihood."""
    lines = ["| | n = " + " | ".join(f"{n:,}" for n in SHOWN) + " |", "|---" * (1 + len(SHOWN)) + "|"]
    for method in METHODS:
        found = [cells.get(f"{method}: n = {n:,}", {}) for n in SHOWN]
        lines.append(f"| {method} | " + " | ".join(map(_said, found)) + " |")
    return lines


def _said(cell: dict[str, Any]) -> str:
    if "rmse" not in cell:
        if "unfinished" in cell:
            return f"not within {cell['unfinished']:,} s"
        return "n × n numbers" if "left_out" in cell else "not measured"
    took = f"{cell['fit'] + cell['predict']:.3g} s"
    return f"{took}, {cell['rmse']:.3g}, {cell['nll']:.3g}".replace("-", "−")


def rows_of(name: str, n: int, path: Path) -> int:
    """Write at most n random rows of a data set to fit, and others to predict; return the number to fit."""
    from apviz import datasets

    whole = datasets.load(name)
    x = np.concatenate([whole.train_x, whole.test_x]).astype(np.float64)
    y = np.concatenate([whole.train_y, whole.test_y]).astype(np.float64)
    order = np.random.default_rng(n).permutation(len(x))
    predicted, fitted = order[:TABLE_POINTS], order[TABLE_POINTS : TABLE_POINTS + n]
    np.savez(path, x=x[fitted], y=y[fitted], z=x[predicted], observed=y[predicted])
    return len(fitted)


def tables(limit: int, sizes: Sequence[int]) -> None:
    """Run what is missing of the registered data sets."""
    path = RESULTS / "prediction_tables.json"
    cells = json.loads(path.read_text())["results"] if path.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for n, name, method in itertools.product(sizes, TABLES, TABLE_METHODS):
            key, python = f"{method}, {name}: n = {n:,}", interpreter(method)
            if key in cells or python is None:
                continue
            table = Path(folder, "table.npz")
            rows = rows_of(name, n, table)
            cells[key] = {"rows": rows} | run(python, method, n, limit, str(table)) | {"load": os.getloadavg()[0]}
            keep("prediction_tables", cells, describe() | {"threads": 1}, show=False)
            print(key, cells[key], flush=True)


def table_of_tables(cells: dict[str, dict[str, Any]]) -> list[str]:
    """Return the lines of the table of registered data sets in Markdown: a line a set and number of rows."""
    lines = ["| data | rows | " + " | ".join(TABLE_METHODS) + " | ratio of seconds |", "|---|---|---|---|---|"]
    for n, name in itertools.product(TABLE_SIZES, TABLES):
        found = [cells.get(f"{method}, {name}: n = {n:,}", {}) for method in TABLE_METHODS]
        took = [cell["fit"] + cell["predict"] if "fit" in cell else math.nan for cell in found]
        ratio = f"{took[0] / took[1]:.2g}" if math.isfinite(took[0] / took[1]) else "–"
        lines.append(f"| {name} | {found[0].get('rows', n):,} | {' | '.join(map(_said, found))} | {ratio} |")
    return lines


def main() -> None:
    """Run what is missing, and keep each cell as it is done."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--limit", type=int, default=600, help="seconds of the processor that a cell may take")
    parser.add_argument("--sizes", type=int, nargs="*")
    parser.add_argument("--tables", action="store_true", help="registered data sets instead of the survey")
    asked = parser.parse_args()
    if asked.tables:
        return tables(asked.limit, asked.sizes or TABLE_SIZES)
    path = RESULTS / "prediction_seconds.json"
    cells = json.loads(path.read_text())["results"] if path.exists() else {}
    interpreters = {method: interpreter(method) for method in METHODS}
    for n in asked.sizes or SIZES:
        for method, python in interpreters.items():
            key = f"{method}: n = {n:,}"
            smaller = [cells.get(f"{method}: n = {each:,}", {}) for each in SIZES if each < n]
            if key in cells or python is None or any("unfinished" in each for each in smaller):
                continue
            if method in DENSE and n > MOST_ROWS:
                cells[key] = {"left_out": "it holds n × n numbers"}
            else:
                cells[key] = run(python, method, n, asked.limit) | {"load": os.getloadavg()[0]}
            keep("prediction_seconds", cells, describe() | {"threads": 1}, show=False)
            print(key, cells[key], flush=True)


if __name__ == "__main__":
    main()
