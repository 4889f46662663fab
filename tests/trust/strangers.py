"""Traces from strangers: flipped bytes, lost files, false numbers and texts. Each gives one sentence, or is escaped.

A case is its seed: a good trace is copied, and one to four changes are made. What opens must be drawn, listed and
diagnosed; next to it, the good trace of its folder stays in the report.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import apviz
from apviz.report.page import find_traces, write_report
from apviz.report.table import table_rows
from tests.trust.verdicts import Verdict

#: markup that a shown text must not become
MARK = "<img src=x onerror=stolen()>"
LIES: tuple[Any, ...] = (
    None, "", MARK, -1, 0, 1e308, "NaN", [], {}, [MARK] * 3, True, 2**70, "../../etc/passwd", "a" * 5_000, "\x00",
    "=1+1", {"x": MARK},
)  # fmt: skip


@functools.cache
def _made() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder that is removed with the process."""
    made = tempfile.TemporaryDirectory(prefix="apviz-trust-")
    folder = Path(made.name)
    x = torch.linspace(0, 1, 60, dtype=torch.float64)
    kernel = apviz.Matern32(lengthscale=0.2)
    system = apviz.KernelSystem(x, torch.sin(9 * x), kernel, noise=0.05, device="cpu", dataset="made")
    for name, solver in {
        "ap": apviz.AlternatingProjection(block_size=12, tol=1e-3),
        "cg": apviz.ConjugateGradient(tol=1e-3),
    }.items():
        apviz.solve(system, solver, hooks=[apviz.Recorder(folder / f"{name}.zarr")])
    return made


def good() -> Path:
    """Return a folder of two traces: projections with all records, and CG."""
    return Path(_made().name)


def mutate(path: Path, rng: np.random.Generator) -> str:
    """Make one change of a trace on disk, and describe it."""

    def one_of(values: Any) -> Any:
        return values[rng.integers(len(values))]

    files = sorted(each for each in path.rglob("*") if each.is_file())
    metadata = [each for each in files if each.name == "zarr.json"]
    what = one_of(("flip", "flip", "cut", "lose", "lie", "lie", "lie", "rename", "link", "strange file"))
    file = one_of(files)
    if what == "flip":
        content = bytearray(file.read_bytes())
        for _ in range(int(rng.integers(1, 4))):
            content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        file.write_bytes(content)
    elif what == "cut":
        file.write_bytes(file.read_bytes()[: int(rng.integers(file.stat().st_size + 1))])
    elif what == "lose":
        file.unlink()
    elif what == "link":
        file.unlink()
        os.symlink("/etc/hostname", file)
    elif what == "strange file":
        strange = path / one_of(("x", "update/c/0/x", "epoch/zarr.json.tmp"))
        strange.parent.mkdir(parents=True, exist_ok=True)
        strange.write_text(MARK)
    else:
        file = one_of(metadata)
        try:
            tree = json.loads(file.read_text())
        except ValueError:
            return "it was broken already"
        place, key = _somewhere(tree, rng)
        if place is None:
            return "nothing to change"
        if what == "rename" and isinstance(place, dict):
            place[one_of((MARK, "", key + " ", "ap"))] = place.pop(key)
        else:
            place[key] = one_of(LIES)
        file.write_text(json.dumps(tree))
        return f"{what} {file.relative_to(path)}: {key}"
    return f"{what} {file.relative_to(path)}"


def _somewhere(tree: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return a random place in JSON and one of its keys, with deep places as likely as others."""
    places = []

    def walk(node: Any) -> None:
        keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
        for key in keys:
            places.append((node, key))
            walk(node[key])

    walk(tree)
    return places[rng.integers(len(places))] if places else (None, None)


def judge(seed: int) -> Verdict:
    """Open, draw, list, diagnose and report the trace of a seed."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory(prefix="apviz-trust-") as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(temporary) / "runs"
        shutil.copytree(good(), folder)
        changed = "; ".join(mutate(folder / "ap.zarr", rng) for _ in range(int(rng.integers(1, 5))))
        try:
            how = _looked_at(folder)
        except AssertionError as wrong:
            return Verdict("false", f"{wrong} ({changed})")
        except Exception as error:
            return Verdict("error", f"{type(error).__name__}: {error} ({changed})")
        return Verdict(how, changed)


def _looked_at(folder: Path) -> str:
    how = "shown"
    try:
        trace = apviz.open_trace(folder / "ap.zarr")
    except (ValueError, OSError) as refused:
        how = "refused"
        assert str(refused), "refused without a word"
    else:
        try:
            apviz.plots.residuals([trace])
            table_rows([trace])
            apviz.diagnose(trace)
        except ValueError as refused:
            assert str(refused), "refused without a word"
            how = "opened, and refused"
    written = write_report(find_traces(folder), folder / "report.html").read_text()
    assert "conjugate gradient" in written.lower() or ">CG" in written, "the good trace is not in the report"
    assert MARK not in written, "a text is not escaped"
    return how


def described(seed: int) -> dict[str, str]:
    """Describe a case in words."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory(prefix="apviz-trust-") as temporary:
        folder = Path(temporary) / "runs"
        shutil.copytree(good(), folder)
        return {"changes": "; ".join(mutate(folder / "ap.zarr", rng) for _ in range(int(rng.integers(1, 5))))}
