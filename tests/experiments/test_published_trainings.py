"""The published trainings of the authors, step by step and as traces, if their file is available."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from apviz import ConjugateGradient, PivotedCholesky, datasets, plots
from apviz.experiments import published
from apviz.experiments.published import AP, CG, SVGP, published_trace, published_traces
from apviz.plots._style import rule_color

needs_runs = pytest.mark.skipif(
    not Path(os.environ.get("APVIZ_DATA", ""), "paper_runs.jsonl.gz").is_file(),
    reason="APVIZ_DATA has no paper_runs.jsonl.gz",
)


def test_without_the_file_there_are_no_trainings_and_no_error(monkeypatch, tmp_path):
    monkeypatch.setenv("APVIZ_DATA", str(tmp_path))
    monkeypatch.setenv("APVIZ_CACHE", str(tmp_path))
    assert published.training_of("airquality", CG) == () and published_trace("airquality", CG) is None
    assert published_traces("airquality") == []


@pytest.mark.parametrize(("name", "method"), [("song", AP), ("china", AP), ("sgemm", SVGP)])
def test_unpublished_trainings_are_empty(name, method):
    assert published.training_of(name, method) == () and published_trace(name, method) is None


@needs_runs
@pytest.mark.parametrize(("name", "steps"), [("sgemm", 50), ("airquality", 50), ("3droad", 50), ("houseelectric", 100)])
def test_a_published_training_has_the_steps_of_the_paper_with_at_least_eleven_epochs(name, steps):
    for method in (AP, CG):
        training = published.training_of(name, method)
        assert len(training) == steps
        assert min(len(step.residual_trace) for step in training) >= 11


@needs_runs
def test_cg_takes_the_iterations_of_table_1_on_air_quality():
    """Table 1 has 2965 ± 19 over seeds; section 5.2: over 120 in the last steps, and 11 for alternating projection."""
    cg, ap = published.training_of("airquality", CG), published.training_of("airquality", AP)
    assert abs(sum(len(step.residual_trace) for step in cg) - 2965) < 3 * 19
    assert len(cg[-1].residual_trace) > 120
    assert {len(step.residual_trace) for step in ap} == {11}


@pytest.mark.parametrize(("name", "rows"), [("sgemm", 193280), ("airquality", 305734)])
def test_trainings_used_four_fifths_of_all_rows(name, rows):
    assert published.full_rows(name) == rows


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
