"""The figure of the K-norm error: its band and its bound."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz import plots
from apviz.analysis import errors


@pytest.fixture(scope="module")
def runs(runs):
    """Return solves in float64, whose error is known after every epoch, and float32 solves by name."""
    x = np.random.default_rng(0).uniform(-1, 1, (120, 2))
    system = apviz.KernelSystem(
        x, np.sin(3 * x), apviz.Matern52(lengthscale=0.5), noise=0.05, dtype=torch.float64, device="cpu"
    )
    solvers = {
        "ap": apviz.AlternatingProjection(block_size=20),
        "cyclic": apviz.AlternatingProjection(block_size=20, rule="cyclic"),
        "cg": apviz.ConjugateGradient(),
    }
    found, recorder = {"float32": runs["ap"], "skeletons": runs["skeletons"]}, apviz.Recorder()
    for name, solver in solvers.items():
        apviz.solve(system, solver, [recorder])
        found[name] = recorder.trace
    return found


def edges(figure):
    """Return the upper and lower edge of the only band, and its bounds."""
    lines = [each for each in figure.data if each.fill is None and each.line.dash != "dot"]
    return lines[0], lines[1], [each for each in figure.data if each.line.dash == "dot"]


def test_the_edges_show_the_recorded_band_relative_to_its_start(runs):
    error = errors.k_norm_error(runs["ap"])
    start = error["upper"].values[0]
    upper, lower, _ = edges(plots.k_norm_error(runs["ap"]))
    np.testing.assert_allclose(upper.y, error["upper"] / start, rtol=1e-14)
    np.testing.assert_allclose(lower.y, error["lower"] / start, rtol=1e-14)
    assert upper.y[0] == 1.0


def test_the_band_is_filled_and_never_reaches_zero(runs):
    figure = plots.k_norm_error([runs["ap"], runs["cg"]])
    for band in (each for each in figure.data if each.fill == "toself"):
        assert np.isfinite(band.y).all()
        assert (band.y > 0).all()


def test_the_exact_error_is_a_line_on_the_scale_of_the_band_and_follows_the_buttons(runs):
    error = errors.k_norm_error(runs["ap"])
    true = np.sqrt(error["upper"].values * error["lower"].values)
    figure = plots.k_norm_error(runs["ap"], errors=true)
    (line,) = [each for each in figure.data if each.name and "exact error" in each.name]
    np.testing.assert_allclose(line.y, true / error["upper"].values[0], rtol=1e-14)
    at = list(figure.data).index(line)
    work = next(each for each in figure.layout.updatemenus[0].buttons if each.label == "work")
    np.testing.assert_allclose(work.args[0]["x"][at], runs["ap"]["epoch"]["work"])


def test_exact_errors_must_cover_every_epoch_of_one_trace(runs):
    with pytest.raises(ValueError, match="errors must be those of one trace"):
        plots.k_norm_error(runs["ap"], errors=[1.0, 0.5])
    with pytest.raises(ValueError, match="2 traces"):
        plots.k_norm_error([runs["ap"], runs["cg"]], errors=np.ones(runs["ap"]["epoch"].sizes["epoch"]))


def test_the_band_ends_where_its_lower_edge_is_zero(runs, monkeypatch):
    error = errors.k_norm_error(runs["cg"])
    error["lower"][-1] = 0.0
    monkeypatch.setattr(errors, "k_norm_error", lambda trace: error)
    figure = plots.k_norm_error(runs["cg"])
    upper, lower, _ = edges(figure)
    assert len(lower.y) == len(upper.y) - 1
    assert lower.y.min() > 0


def test_the_bound_of_theorem_1_is_dotted_in_the_colour_of_the_method(runs):
    error = errors.k_norm_error(runs["ap"])
    upper, _, (bound,) = edges(plots.k_norm_error(runs["ap"]))
    np.testing.assert_allclose(bound.y, error["bound"] / error["upper"][0], rtol=1e-14)
    assert bound.line.color == upper.line.color == plots.method_color(runs["ap"].method)
    assert "Theorem 1" in bound.name


@pytest.mark.parametrize("name", ["ap", "cg"])
def test_a_bound_from_estimated_eigenvalues_is_called_an_estimate(runs, name, monkeypatch):
    error = errors.k_norm_error(runs[name])
    for is_estimate in (True, False):
        known = error.assign_attrs(bound_is_estimate=is_estimate)
        monkeypatch.setattr(errors, "k_norm_error", lambda trace, known=known: known)
        (bound,) = edges(plots.k_norm_error(runs[name]))[2]
        assert ("(estimate)" in bound.name) == is_estimate


def test_a_rule_without_a_bound_has_a_band_and_no_dotted_line(runs):
    upper, _, bounds = edges(plots.k_norm_error(runs["cyclic"]))
    assert len(upper.y) == runs["cyclic"]["epoch"].sizes["epoch"]
    assert bounds == []


def test_runs_without_energy_and_residual_are_named_and_raise_if_there_are_no_others(runs, edited):
    # the residual alone bounds the error too
    epoch = runs["cg"]["epoch"]
    lost = {name: np.full(epoch[name].shape, np.nan) for name in ("energy", "residual_per_rhs")}
    unknown = edited(runs["cg"], **lost)
    assert "no error band for CG" in plots.k_norm_error([runs["ap"], unknown]).layout.title.text
    with pytest.raises(ValueError, match=r"no trace has a K-norm error band"):
        plots.k_norm_error(unknown)


@pytest.mark.parametrize("name", ["skeletons", "float32"])
def test_errors_known_at_passes_are_bars_joined_by_a_line_marked_as_an_estimate(runs, name):
    trace = runs[name]
    figure = plots.k_norm_error(trace, x="epochs")
    line, upper, lower = [each for each in figure.data if each.line.dash != "dot"]
    assert line.mode == "lines" and "estimate" in line.hovertemplate and line.line.width == 1
    on_a_log_axis = errors.k_norm_error(trace)["estimate"].values > 0
    np.testing.assert_array_equal(line.x, trace["epoch"]["epoch"][on_a_log_axis])
    assert upper.mode == lower.mode == "markers" and "error where all rows were checked" in figure.layout.title.text
    exact = trace["pass"]["epoch"].values[trace["pass"]["is_exact"].values == 1]
    np.testing.assert_array_equal(upper.x, [0, *exact])
    np.testing.assert_allclose(upper.y - upper.error_y.arrayminus, lower.y, rtol=1e-6)
