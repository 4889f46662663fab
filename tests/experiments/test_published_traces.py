"""Trainings of the authors as traces."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from apviz import ConjugateGradient, PivotedCholesky, datasets, plots
from apviz.experiments.published import AP, CG, published_trace, published_traces
from apviz.plots._style import rule_color

needs_runs = pytest.mark.skipif(
    not Path(os.environ.get("APVIZ_DATA", ""), "paper_runs.jsonl.gz").is_file(),
    reason="APVIZ_DATA has no paper_runs.jsonl.gz",
)


def test_without_the_file_there_is_no_trace_and_no_error(monkeypatch, tmp_path):
    monkeypatch.setenv("APVIZ_DATA", str(tmp_path))
    monkeypatch.setenv("APVIZ_CACHE", str(tmp_path))
    assert published_traces("airquality") == [] and published_trace("airquality", CG) is None


def test_a_data_set_without_published_steps_has_none():
    assert published_traces("china") == []


@needs_runs
def test_a_step_has_the_noise_of_its_solve_which_is_that_after_the_previous_step():
    steps = published_trace("airquality", AP)["step"]
    runs = datasets.published_training("airquality", method="altproj", seed=0)
    np.testing.assert_array_equal(steps["noise"].values[1:], [run.noise for run in runs[:-1]])
    # raw parameters of zero, above the floor of GPyTorch
    assert steps["noise"].values[0] == pytest.approx(np.log(2) + 1e-4)
    np.testing.assert_array_equal(steps["epochs"].values, [len(run.residual_trace) for run in runs])


@needs_runs
def test_both_methods_share_a_figure_in_the_usual_colours():
    traces = published_traces("airquality")
    assert [trace.method_name for trace in traces] == [
        "Alternating projection (greedy), as published", "CG + pivoted Cholesky, as published",
    ]  # fmt: skip
    curves = [each for each in plots.training(traces).data if each.showlegend]
    assert [curve.line.color for curve in curves] == [
        rule_color("gauss-southwell"),
        plots.method_color(ConjugateGradient(preconditioner=PivotedCholesky()).method),
    ]
