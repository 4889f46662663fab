"""Folders of runs for the benchmark of the dashboard: twelve real ones, one of 100,000 updates, a thousand."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
from torch import Tensor

import apviz
from apviz import comparison
from apviz.solvers import attempt
from apviz.tracing.store import Record

LARGE = 100_000


def make_twelve(folder: Path) -> Path:
    """Make a comparison of twelve methods on one system, and a run with pictures; made once."""
    if folder.exists():
        return folder
    data = apviz.datasets.load("china", n=1_712)
    chosen = comparison.choose_hyperparameters(data)
    system = comparison.build_system(data, chosen, rhs=4)
    rules = ["gauss-southwell", "cyclic", "random", "shuffled"]
    solvers = comparison.choose_solvers(["ap", "overlap", "cg", "pcg"], rules=rules, block_sizes=[100, 200, 400])[-12:]
    assert len(solvers) == 12
    for _ in comparison.compare(system, solvers, folder, comparison.Recording(data, chosen.mean, 20)):
        pass
    return folder


def make_many(folder: Path, count: int) -> Path:
    """Make `count` runs under their own names, each with its own noise, from the files of a real one."""
    one = folder.with_name("one.zarr")
    system = apviz.KernelSystem(*_china(400), apviz.Matern52(lengthscale=0.2), noise=0.1, dataset="china")
    recorder = apviz.Recorder()
    attempt(system, apviz.AlternatingProjection(block_size=50), [recorder])
    recorder.trace.save(one)
    for number in range(count):
        path = folder / f"run-{number:04d}.zarr"
        # linked, because copies of a hundred thousand small files take minutes
        shutil.copytree(one, path, copy_function=os.link)
        root = json.loads((path / "zarr.json").read_bytes())
        root["attributes"]["noise"] = 0.01 * (1 + number)
        (path / "zarr.json").unlink()
        (path / "zarr.json").write_text(json.dumps(root))
    shutil.rmtree(one)
    return folder


def make_large(path: Path, updates: int = LARGE) -> None:
    """Make a trace of `updates` updates: the record of a real solve, with its epochs repeated."""
    system = apviz.KernelSystem(*_china(2_000), apviz.Matern52(lengthscale=0.2), noise=0.1, dataset="china")
    recorder = apviz.Recorder()
    attempt(system, apviz.AlternatingProjection(block_size=100, tol=1e-12, max_epochs=50), [recorder])
    short, blocks = recorder.trace, len(recorder.trace["block"]["block"])
    epochs = updates // blocks
    record = Record(dict(short.attrs))
    group = {name: variable.values for name, variable in short["spectrum"].data_vars.items()}
    record.put(spectrum=group, block={name: short["block"][name].values for name in ("owned_size", "solved_size",
               "lambda_max", "jitter", "times_chosen")} | {"block": range(blocks)})  # fmt: skip
    record.group_attrs["spectrum"] = dict(short["spectrum"].attrs)
    for name, variable in short["spectrum"].data_vars.items():
        record.variable_attrs["spectrum", str(name)] = dict(variable.attrs)
    for name in ("update", "epoch"):
        length = epochs * blocks if name == "update" else epochs + 1
        values = {key: np.resize(v.values, (length, *v.shape[1:])) for key, v in short[name].variables.items()}
        values[name] = np.arange(name == "update", length + (name == "update"))
        values["work"], values["seconds"] = np.linspace(1, epochs, length), np.linspace(0, 60, length)
        if name == "update":
            values["epoch_of_update"] = 1 + np.arange(length) // blocks
        record.put(**{name: values})
    norms = np.resize(short["block"]["residual_norm"].values, (epochs + 1, blocks))
    record.put(block={"epoch": range(epochs + 1), "residual_norm": norms})
    record.to_trace().save(path)


def _china(n: int) -> tuple[Tensor, Tensor]:
    data = apviz.datasets.load("china", n=n)
    return data.train_x, data.train_y
