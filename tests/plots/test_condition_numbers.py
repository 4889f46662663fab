"""κ and κ′ in one figure: values by dense algebra, their signs, and dotted bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import apviz
from apviz import plots
from apviz.plots._style import BOUND_DASH

N, SIZE = 120, 30


def system():
    x = np.random.default_rng(0).uniform(-1, 1, (N, 2))
    return apviz.KernelSystem(x, np.sin(3 * x[:, 0]), apviz.Matern52(lengthscale=0.5), noise=0.05, dtype=torch.float64)


def recorded(*solvers, **recording):
    recorder, problem = apviz.Recorder(**recording), system()
    for solver in solvers:
        apviz.solvers.attempt(problem, solver, [recorder])
    return recorder.traces


def numbers(figure):
    """Return the numbers of every run by symbol: κ is a diamond, κ′ a circle."""
    found = {}
    for curve in figure.data:
        if curve.mode == "markers" and curve.x[0] is not None:
            found.setdefault(curve.name, {})[curve.marker.symbol] = curve.x[0]
    return found


def test_kappa_and_kappa_prime_share_an_axis_and_agree_with_dense_algebra():
    traces = recorded(apviz.AlternatingProjection(block_size=SIZE), apviz.ConjugateGradient())
    k = system().operator.block(slice(0, N)).numpy()
    values = np.linalg.eigvalsh(k)
    largest = max(np.linalg.eigvalsh(k[i : i + SIZE, i : i + SIZE])[-1] for i in range(0, N, SIZE))
    found = numbers(plots.condition_numbers(traces))
    ap, cg = found[f"Alternating projection (greedy, b = {SIZE})"], found["CG"]
    assert ap["diamond"] == cg["diamond"] == pytest.approx(values[-1] / values[0], rel=1e-6)
    assert ap["circle"] == pytest.approx(largest / values[0], rel=1e-2) and "circle" not in cg


def test_an_estimate_is_marked_with_a_dotted_line_to_a_valid_bound():
    (trace,) = recorded(apviz.ConjugateGradient(), spectrum="subsample", spectrum_rows=40)
    figure = plots.condition_numbers(trace)
    (label,) = [note.text for note in figure.layout.annotations]
    assert label == f"CG: {trace.condition()}" and "κ ≈" in label
    (line,) = [curve for curve in figure.data if curve.line.dash == BOUND_DASH and curve.x[0] is not None]
    k = system().operator.block(slice(0, N)).numpy()
    assert line.x[1] >= np.linalg.cond(k) and line.x[0] == float(trace["spectrum"]["kappa"])


def test_the_end_of_a_dotted_line_is_marked_so_that_the_axis_reaches_beyond_it():
    """An axis ends exactly where a line without a marker ends."""
    (trace,) = recorded(apviz.ConjugateGradient(), spectrum="subsample", spectrum_rows=40)
    (line,) = [c for c in plots.condition_numbers(trace).data if c.line.dash == BOUND_DASH and c.x[0] is not None]
    assert line.mode == "lines+markers" and line.marker.size[0] == 0 < line.marker.size[1]


def test_names_of_runs_are_nearer_to_their_own_numbers_than_to_others_and_cover_none():
    traces = recorded(*(apviz.AlternatingProjection(block_size=b) for b in (15, 20, 30, 40)))
    figure = plots.condition_numbers(traces)
    low, high = figure.layout.yaxis.range
    pixels = figure.layout.meta["axes"] / (low - high)
    for note, trace in zip(figure.layout.annotations, traces, strict=True):
        own = [c.y[0] for c in figure.data if c.mode == "markers" and c.y[0] is not None and c.name in note.text]
        assert len(own) == 2 and note.text.endswith(trace.condition("kappa_prime"))
        for y in own:
            # half a line of text and half a marker
            assert (y - note.y) * pixels > 10 + 6 and (y - note.y) * pixels + 10 + 6 < pixels


def test_exact_values_have_no_line_to_a_bound():
    (trace,) = recorded(apviz.ConjugateGradient(), spectrum="exact")
    assert not [c for c in plots.condition_numbers(trace).data if c.line.dash == BOUND_DASH and c.x[0] is not None]


def test_runs_of_unknown_kappa_are_left_out_with_a_note():
    known, unknown = recorded(apviz.ConjugateGradient(), apviz.Cholesky())
    unknown.tree["spectrum"]["kappa"][...] = math.nan
    assert "1 of 2 runs have no condition number" in plots.condition_numbers([known, unknown]).layout.title.text
    with pytest.raises(ValueError, match="no trace has a condition number"):
        plots.condition_numbers(unknown)
