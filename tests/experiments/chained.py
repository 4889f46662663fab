"""An experiment of two cells, whose second opens the trace of the first; workers import it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch

import apviz
from apviz.experiments.base import Cell, Experiment


class Chained(Experiment):
    name = "chained"
    title = "A cell that opens the trace of another"
    source = "nowhere"

    def cells(self, options):
        return [Cell("first", partial(_solve, options)), Cell("second", partial(_open, options), needs=("first",))]

    def tables(self, rows, options):
        return []

    def charts(self, rows, folder):
        return []


def _solve(options, trace: Path):
    x = torch.linspace(0, 1, 50, dtype=torch.float64)
    system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
    solution = apviz.solve(system, apviz.AlternatingProjection(block_size=10), [apviz.Recorder(trace), *options.hooks])
    return {"residual": solution.residual}


def _open(options, trace: Path):
    found = apviz.open_trace(trace.with_name("first.zarr"))
    return {"residual of the first": float(found["epoch"]["residual"][-1])}
