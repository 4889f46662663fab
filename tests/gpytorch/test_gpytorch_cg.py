"""Recording GPyTorch's CG changes no bit, and the traces describe its iterations."""

from __future__ import annotations

import copy
import json
import re
import sys
import warnings
from contextlib import ExitStack, nullcontext

import gpytorch
import linear_operator
import numpy as np
import pytest
import torch
from linear_operator.utils.linear_cg import linear_cg
from test_gpytorch_examples import example, kernels

import apviz
from apviz.report import find_traces, write_report

record_cg = apviz.gpytorch.record_cg
PERIODIC = kernels.ScaleKernel(kernels.RBFKernel() + kernels.ScaleKernel(kernels.PeriodicKernel()))
MATERN = kernels.ScaleKernel(kernels.MaternKernel(2.5, ard_num_dims=2))


def by_cg(rank=0, tol=1e-2, iterations=1000):
    """Make GPyTorch use CG at any size, preconditioned by a factor of `rank` columns."""
    s, stack = gpytorch.settings, ExitStack()
    for context in (
        s.max_cholesky_size(1), s.min_preconditioning_size(1), s.max_preconditioner_size(rank), s.cg_tolerance(tol),
        s.eval_cg_tolerance(tol), s.max_cg_iterations(iterations),
    ):  # fmt: skip
        stack.enter_context(context)
    return stack


def results(recorder, kernel=MATERN, dtype=torch.float64, **settings):
    """Return loss, gradients, predictive mean and variance, and the warnings."""
    torch.manual_seed(0)
    e = example(120, 2, copy.deepcopy(kernel), dtype=dtype)
    e.likelihood.noise = 1e-3
    with warnings.catch_warnings(record=True) as caught, by_cg(**settings):
        warnings.simplefilter("always")
        with record_cg(recorder) if recorder else nullcontext():
            loss = e.loss()
            gradients = e.gradients(loss)
            found = e.predict()
            numbers = [loss.detach(), *gradients.values(), found.mean, found.variance]
    return numbers, [str(w.message) for w in caught]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rank", [0, 10])
@pytest.mark.parametrize("kernel", [MATERN, PERIODIC], ids=["Matérn", "sum"])
def test_recording_changes_no_bit(dtype, rank, kernel):
    recorder = apviz.Recorder()
    alone, said = results(None, kernel, dtype, rank=rank)
    recorded, said_too = results(recorder, kernel, dtype, rank=rank)
    assert all(torch.equal(a, b) for a, b in zip(alone, recorded, strict=True))
    assert said == said_too
    # the training solve, then those of the prediction's mean and variance
    assert [t.attrs["right_hand_sides"] for t in recorder.traces] == [11, 1, 20]


def test_the_last_residual_equals_the_one_in_the_warning_of_gpytorch():
    recorder = apviz.Recorder()
    _, said = results(recorder, iterations=30)
    warned = [re.search(r"terminated in (\d+) iterations with average residual norm ([\d.e+-]+)", m) for m in said]
    stopped = [t for t in recorder.traces if t.outcome == "max_epochs"]
    assert stopped
    assert len(stopped) == len([w for w in warned if w])
    for trace, warning in zip(stopped, filter(None, warned), strict=True):
        last = trace["epoch"].isel(epoch=-1)
        assert int(last["epoch"]) == int(warning[1]) == 30
        np.testing.assert_allclose(float(last["residual"]), float(warning[2]), rtol=1e-12)
        assert "raise gpytorch.settings.max_cg_iterations" in trace.attrs["stop_message"]
        assert not trace.converged


def spd(n=60, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((n, n))
    return torch.tensor(a @ a.T / n + 0.1 * np.eye(n)), torch.tensor(rng.standard_normal((n, 3)))


def cg_in_numpy(k, b, iterations):
    """Return residual norms of normalised right-hand sides and h(W), before and after each iteration."""
    k, b = k.numpy(), b.numpy()
    w, r = np.zeros_like(b), b.copy()
    p, norms, energy = r.copy(), [], []
    for _ in range(iterations + 1):
        norms.append(np.linalg.norm(r, axis=0) / np.linalg.norm(b, axis=0))
        energy.append(0.5 * np.trace(w.T @ k @ w) - np.trace(b.T @ w))
        rr, kp = (r * r).sum(0), k @ p
        step = rr / (p * kp).sum(0)
        w, r = w + step * p, r - step * kp
        p = r + (r * r).sum(0) / rr * p
    return np.array(norms), np.array(energy)


def test_residuals_and_energies_agree_with_cg_in_numpy():
    k, b = spd()
    recorder = apviz.Recorder()
    with record_cg(recorder):
        found = linear_operator.utils.linear_cg(k, b, tolerance=1e-4, max_iter=100)
    trace = recorder.trace
    epochs = int(trace.attrs["epochs"])
    norms, energy = cg_in_numpy(k, b, epochs)
    np.testing.assert_allclose(trace["epoch"]["residual_per_rhs"], norms, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(trace["epoch"]["energy"], energy, rtol=1e-9)
    np.testing.assert_allclose(trace["update"]["energy_decrease"], -np.diff(energy), atol=1e-9)
    true = torch.linalg.vector_norm(b - k @ found, dim=0) / torch.linalg.vector_norm(b, dim=0)
    np.testing.assert_allclose(float(trace["epoch"]["checked_residual"][-1]), true.mean(), rtol=1e-9)
    assert trace.converged
    # one product for the initial guess, and one per iteration
    np.testing.assert_allclose(trace["epoch"]["work"], 1 + np.arange(epochs + 1))


def test_with_a_preconditioner_and_an_initial_guess_the_energies_are_right_too():
    k, b = spd()
    start, diagonal = torch.ones_like(b), k.diagonal()[:, None]
    recorder = apviz.Recorder()
    with record_cg(recorder):
        w = linear_operator.utils.linear_cg(
            k.matmul, b, tolerance=1e-4, max_iter=100, initial_guess=start, preconditioner=lambda r: r / diagonal
        )
    energy = recorder.trace["epoch"]["energy"].values

    def h(v):
        return float(0.5 * (v * (k @ v)).sum() - (b * v).sum())

    np.testing.assert_allclose(energy[[0, -1]], [h(start), h(w)], rtol=1e-9)
    assert (np.diff(energy) <= 1e-12).all()


def test_the_stopping_rule_of_gpytorch_decides_and_false_claims_do_not_count_as_converged():
    recorder = apviz.Recorder()
    results(recorder, tol=1.0)
    train, mean, _ = recorder.traces
    # with probes for the log determinant, the tolerance applies after 20 Lanczos steps, otherwise after 11 iterations
    assert (train.attrs["epochs"], mean.attrs["epochs"]) == (21, 11) or train.attrs["epochs"] > 21
    assert json.loads(mean.attrs["solver_settings"])["min_epochs"] == 11
    assert "converged: GPyTorch's rule held" in mean.attrs["stop_message"]
    results(recorder, dtype=torch.float32, tol=1e-5)
    drifted = [t for t in recorder.traces if t.outcome == "stagnated"]
    assert drifted
    for trace in drifted:
        last = trace["epoch"].isel(epoch=-1)
        assert float(last["residual"]) < 1e-5 <= float(last["checked_residual"])
        assert "B − KW contradicts it" in trace.attrs["stop_message"]


def test_an_already_solved_right_hand_side_has_a_trace_too():
    k, b = spd()
    recorder = apviz.Recorder()
    with record_cg(recorder):
        linear_operator.utils.linear_cg(k, 0 * b)
    assert (recorder.trace.outcome, recorder.trace.attrs["epochs"]) == ("converged", 0)


def test_batches_of_matrices_are_recorded_column_by_column():
    (k, b), (m, c) = spd(seed=1), spd(seed=2)
    recorder = apviz.Recorder()
    with record_cg(recorder):
        linear_operator.utils.linear_cg(torch.stack([k, m]), torch.stack([b, c]), tolerance=1e-4)
    trace = recorder.trace
    assert trace["epoch"]["residual_per_rhs"].shape == (trace.attrs["epochs"] + 1, 6)
    np.testing.assert_allclose(np.diff(trace["epoch"]["work"]), 2.0)
    norms, _ = cg_in_numpy(m, c, 5)
    np.testing.assert_allclose(trace["epoch"]["residual_per_rhs"][:6, 3:], norms, rtol=1e-8)


def test_a_supported_model_is_described_like_in_apviz():
    recorder = apviz.Recorder()
    results(recorder)
    e = example(120, 2, copy.deepcopy(MATERN))
    with torch.no_grad():
        k = (e.model.covar_module(e.x).to_dense() + 1e-3 * torch.eye(120)).numpy()
    for trace in recorder.traces:
        a = trace.attrs
        assert (trace.method_name, a["n"], a["d"], a["kernel"]) == ("GPyTorch CG", 120, 2, "matern52")
        np.testing.assert_allclose(a["lengthscale"], [np.log(2)] * 2)
        np.testing.assert_allclose([a["outputscale"], a["noise"]], [np.log(2), 1e-3], rtol=1e-6)
        np.testing.assert_allclose(float(trace["spectrum"]["lambda_max"]), np.linalg.eigvalsh(k)[-1], rtol=1e-6)


def test_for_an_unsupported_kernel_only_known_attributes_are_recorded():
    recorder = apviz.Recorder()
    results(recorder, PERIODIC)
    a = recorder.trace.attrs
    assert a["kernel"] == "ScaleKernel(AdditiveKernel(RBFKernel, ScaleKernel(PeriodicKernel)))"
    assert a["lengthscale"] == []
    spectrum = recorder.trace["spectrum"]
    assert np.isnan(float(spectrum["kappa"]))
    assert "not computed" in spectrum["kappa"].attrs["how"]
    np.testing.assert_allclose(spectrum.attrs["lambda_min_bound"], 1e-3, rtol=1e-6)


@pytest.mark.parametrize("kernel", [MATERN, PERIODIC], ids=["Matérn", "sum"])
def test_traces_are_written_and_reopened_for_charts_and_a_report(tmp_path, kernel):
    recorder = apviz.Recorder(tmp_path / "cg.zarr")
    results(recorder, kernel, iterations=60)
    # less is known about a matrix without a kernel
    with record_cg(recorder):
        linear_operator.utils.linear_cg(*spd())
    opened = find_traces(tmp_path)
    assert len(opened) == 4
    for number, kept in enumerate(recorder.traces, 1):
        trace = apviz.open_trace(tmp_path / ("cg.zarr" if number == 1 else f"cg-{number}.zarr"))
        np.testing.assert_array_equal(trace["epoch"]["residual"], kept["epoch"]["residual"])
        assert trace.finished
    figure = apviz.plots.residuals(opened)
    curves = [each for each in figure.data if each.legendgroup]
    # one method: its name is above the chart, and each curve states how its solve differs
    assert "GPyTorch CG" in figure.layout.title.text
    assert len({each.legendgroup for each in curves}) == 4 and any("sides 20" in each.name for each in curves)
    assert "GPyTorch CG" in write_report(opened, tmp_path / "report.html").read_text()


def test_an_exception_inside_cg_keeps_the_record_and_restores_gpytorch():
    k, b = spd()
    calls = iter(range(5))

    def failing(r):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return r.clone()

    recorder = apviz.Recorder()
    with pytest.raises(KeyboardInterrupt), record_cg(recorder):
        linear_operator.utils.linear_cg(k, b, tolerance=1e-9, preconditioner=failing)
    assert recorder.trace.outcome == "interrupted"
    assert recorder.trace["epoch"].sizes["epoch"] == 5
    assert linear_operator.utils.linear_cg is linear_cg
    assert sys.modules["linear_operator.utils.linear_cg"].linear_cg is linear_cg
    assert sys.modules["linear_operator.utils.contour_integral_quad"].linear_cg is linear_cg


def test_a_solve_with_a_bare_function_is_not_recorded():
    k, b = spd()
    recorder = apviz.Recorder()
    with pytest.warns(UserWarning, match="no CG ran inside record_cg"), record_cg(recorder):
        found = linear_operator.utils.linear_cg(lambda v: k @ v, b, tolerance=1e-4)
    assert torch.equal(found, linear_operator.utils.linear_cg(k.matmul, b, tolerance=1e-4))
    assert not recorder.traces


def test_nested_recorders_each_get_the_trace():
    k, b = spd()
    outer, inner = apviz.Recorder(), apviz.Recorder()
    with record_cg(outer), record_cg(inner):
        linear_operator.utils.linear_cg(k, b)
    assert outer.trace.attrs["epochs"] == inner.trace.attrs["epochs"] > 0
    np.testing.assert_array_equal(outer.trace["epoch"]["residual"], inner.trace["epoch"]["residual"])


def test_inside_alternating_projection_gpytorch_runs_no_cg():
    recorder = apviz.Recorder()
    with (
        pytest.warns(UserWarning, match="no CG ran inside record_cg; GPyTorch solved nothing"),
        record_cg(recorder),
        apviz.gpytorch.alternating_projection(block_size=40, log_determinant="lanczos"),
        by_cg(),
    ):
        example(80, 2).gradients()
    assert not recorder.traces


def test_a_warning_names_the_setting_if_gpytorch_uses_cholesky():
    with (
        pytest.warns(UserWarning, match="took Cholesky for n = 120, .*max_cholesky_size is 800") as caught,
        record_cg(apviz.Recorder()),
    ):
        example(120, 2).gradients()
    assert len(caught) == 1
    with (
        pytest.warns(UserWarning, match=r"since in gpytorch.settings fast_computations\(log_prob=False\) is on"),
        gpytorch.settings.max_cholesky_size(1),
        gpytorch.settings.fast_computations(log_prob=False, solves=False),
        record_cg(apviz.Recorder()),
    ):
        example(120, 2).gradients()
    with warnings.catch_warnings(), by_cg(rank=10, tol=1e-2), record_cg(apviz.Recorder()):
        warnings.simplefilter("error", UserWarning)
        example(120, 2).gradients()


def test_record_cg_rejects_models_that_it_cannot_record():
    with pytest.raises(TypeError, match="recorder must be an apviz.Recorder, got list"), record_cg([]):
        raise AssertionError("entered")
    with (
        pytest.raises(ValueError, match="outputs of the recorder must be path and spectrum only, got .*'rows'"),
        record_cg(apviz.Recorder(rows=True)),
    ):
        raise AssertionError("entered")


def test_a_kernel_between_two_sets_of_inputs_does_not_provide_the_inputs_of_a_matrix():
    e, recorder = example(60, 2), apviz.Recorder()
    with record_cg(recorder), by_cg(), torch.no_grad():
        matrix = e.model.covar_module(e.x).evaluate_kernel().add_jitter(0.1)
        e.model.covar_module(20 * e.x, e.x).evaluate_kernel()
        matrix.solve(e.y[:, None])
    largest = np.linalg.eigvalsh(matrix.to_dense().numpy())[-1]
    np.testing.assert_allclose(float(recorder.trace["spectrum"]["lambda_max"]), largest, rtol=1e-6)
