"""Traces of SciPy's iterative solvers, and of logs of PETSc's: their numbers, how they are known, who reads them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg as solvers

import apviz
from apviz.tracing import read_ksp_monitor
from apviz.tracing.opening import check_complete
from apviz.tracing.scipy_solvers import WITH_NORMS, WITH_X

N, NOISE = 60, 0.05


def some_system(noise: float = NOISE) -> tuple[np.ndarray, np.ndarray]:
    x = np.linspace(0, 1, N)
    return np.exp(-8 * np.abs(x[:, None] - x)) + noise * np.eye(N), np.sin(6 * x) + x


def solutions_of(solver, a, b, **settings) -> list[np.ndarray]:
    seen: list[np.ndarray] = []
    solver(a, b, callback=lambda x: seen.append(x.copy()), **settings)
    return seen


@pytest.mark.parametrize("name", WITH_X)
def test_a_recorded_solver_returns_what_it_returns_alone_and_residuals_are_those_of_its_iterates(name):
    a, b = some_system()
    solver = getattr(solvers, name)
    expected, info = solver(a, b, rtol=1e-8)
    found = apviz.record(solver, a, b, rtol=1e-8)
    assert np.array_equal(found.x, expected) and found.info == info
    iterates = solutions_of(solver, a, b, rtol=1e-8)
    residuals = [np.linalg.norm(b - a @ x) / np.linalg.norm(b) for x in iterates]
    assert found.trace["epoch"]["residual"].values[1 : len(iterates) + 1] == pytest.approx(
        residuals, rel=1e-6, abs=1e-14
    )
    assert found.trace.converged is bool(np.linalg.norm(b - a @ expected) <= 1e-8 * np.linalg.norm(b))


@pytest.mark.parametrize("name", [*WITH_X, *WITH_NORMS])
def test_a_trace_of_scipy_is_complete_and_figures_and_diagnoses_read_it(name, tmp_path):
    a, b = some_system()
    trace = apviz.record(getattr(solvers, name), a, b, noise=NOISE, path=tmp_path / "scipy.zarr").trace
    check_complete(trace)
    opened = apviz.open_trace(tmp_path / "scipy.zarr")
    assert opened.finished and opened.method_name == f"SciPy {name.upper()}"
    assert apviz.diagnose(opened).advice
    for draw in (apviz.plots.residuals, apviz.plots.k_norm_error, apviz.plots.condition_numbers):
        assert draw(opened).data


def test_energies_of_cg_are_h_of_its_iterates_and_fall_at_every_iteration():
    a, b = some_system()
    trace = apviz.record(solvers.cg, a, b, rtol=1e-8).trace
    h = [0.5 * x @ a @ x - b @ x for x in solutions_of(solvers.cg, a, b, rtol=1e-8)]
    assert trace["epoch"]["energy"].values[1 : len(h) + 1] == pytest.approx(h, abs=1e-12)
    assert (trace["update"]["energy_decrease"].values[:-1] > 0).all()
    error = apviz.analysis.k_norm_error(trace)
    exact = np.linalg.solve(a, b)
    at_start = exact @ a @ exact
    assert float(error["lower"][0]) <= at_start * (1 + 1e-12) and at_start <= float(error["upper"][0]) * (1 + 1e-12)


def test_the_eigenvalues_of_a_small_symmetric_matrix_are_recorded():
    a, b = some_system()
    spectrum = apviz.record(solvers.minres, scipy.sparse.csr_array(a), b).trace["spectrum"]
    assert float(spectrum["kappa"]) == pytest.approx(np.linalg.cond(a))


def test_residuals_of_gmres_are_marked_as_estimates_and_its_last_is_recomputed():
    a, b = some_system()
    found = apviz.record(solvers.gmres, a, b, rtol=1e-6)
    trace = found.trace
    assert not trace.residual_is_measured and trace.residual_in_words().startswith("≈")
    assert "estimate" in trace["epoch"]["residual"].attrs["how"]
    checked = float(trace["epoch"]["checked_residual"][-1])
    assert checked == pytest.approx(np.linalg.norm(b - a @ found.x) / np.linalg.norm(b))
    measured = apviz.record(solvers.cg, a, b).trace
    assert measured.residual_is_measured and measured.attrs["certificate"] == "exact"
    assert "certificate" not in trace.attrs


def test_work_counts_the_products_of_the_solver_and_not_those_of_the_recorder():
    a, b = some_system()
    count = 0

    def product(x):
        nonlocal count
        count += 1
        return a @ x

    alone = solvers.LinearOperator(a.shape, matvec=product, dtype=np.float64)
    solvers.cg(alone, b, rtol=1e-6)
    products, count = count, 0
    trace = apviz.record(solvers.cg, alone, b, rtol=1e-6).trace
    assert float(trace["epoch"]["work"][-1]) == products
    assert not trace.residual_is_measured  # of an operator nobody knows the rounding


def test_a_limit_of_iterations_is_no_convergence_and_a_lack_of_noise_is_diagnosed():
    a, b = some_system(1e-7)
    found = apviz.record(solvers.cg, a, b, noise=1e-7, maxiter=5)
    assert found.info == 5 and found.trace.outcome == "max_epochs" and "maxiter" in found.trace.advice
    assert apviz.diagnose(found.trace).limit is not apviz.analysis.Limit.NOTHING


def test_convergence_by_the_rule_of_minres_alone_is_not_called_converged():
    a, b = some_system(1e-7)
    found = apviz.record(solvers.minres, a, b)  # its rule is relative to ‖A‖ ‖x‖
    assert found.info == 0 and np.linalg.norm(b - a @ found.x) > 1e-5 * np.linalg.norm(b)
    assert found.trace.status().startswith("Not converged: stopped early")
    assert "rule of SciPy's minres" in found.trace.advice
    assert "rtol" in apviz.diagnose(found.trace).evidence


def test_a_preconditioner_a_start_and_a_callback_of_the_user_work_as_without_recording():
    a, b = some_system()
    m, x0, seen = np.diag(1 / a.diagonal()), np.ones(N), []
    expected, _ = solvers.cg(a, b, x0, M=m)
    found = apviz.record(solvers.cg, a, b, x0, M=m, callback=lambda x: seen.append(1))
    assert np.array_equal(found.x, expected) and seen
    assert found.trace.method_name == "SciPy CG, preconditioned"
    assert float(found.trace["epoch"]["residual"][0]) == pytest.approx(np.linalg.norm(b - a @ x0) / np.linalg.norm(b))


def test_a_solve_that_raises_leaves_a_trace_that_says_interrupted(tmp_path):
    a, b = some_system()

    def stop(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apviz.record(solvers.cg, a, b, callback=stop, path=tmp_path / "cut.zarr")
    trace = apviz.open_trace(tmp_path / "cut.zarr")
    assert not trace.finished and "KeyboardInterrupt" in trace.attrs["stop_message"]


@pytest.mark.parametrize(
    ("change", "error", "why"),
    [
        ({"solver": solvers.lsqr}, TypeError, "one of scipy.sparse.linalg's cg"),
        ({"b": np.zeros(N)}, ValueError, "not all zero"),
        ({"b": np.ones(3)}, ValueError, "shape of b"),
        ({"a": np.ones((N, 2))}, ValueError, "shape of A"),
        ({"a": 1j * np.eye(N)}, ValueError, "real"),
        ({"noise": -1.0}, ValueError, "noise"),
    ],
)
def test_invalid_input_of_record_is_named(change, error, why):
    a, b = some_system()
    given = {"solver": solvers.cg, "a": a, "b": b} | change
    with pytest.raises(error, match=why):
        apviz.record(given.pop("solver"), given.pop("a"), given.pop("b"), **given)


# --- PETSc ------------------------------------------------------------------------------------------------------------

PLAIN = """\
  Residual norms for solve.
  0 KSP Residual norm 4.000000000000e+00
  1 KSP Residual norm 1.000000000000e+00
  2 KSP Residual norm 4.000000000000e-07
Linear solve converged due to CONVERGED_RTOL iterations 2
"""
TRUE = """\
  0 KSP preconditioned resid norm 3.0e+00 true resid norm 9.0e+00 ||r(i)||/||b|| 1.000000e+00
  1 KSP preconditioned resid norm 1.0e+00 true resid norm 4.5e+00 ||r(i)||/||b|| 5.000000e-01
Linear solve did not converge due to DIVERGED_ITS iterations 1
"""
NESTED = """\
    0 KSP Residual norm 1.0
    1 KSP Residual norm 0.1
    Linear fieldsplit_0_ solve converged due to CONVERGED_RTOL iterations 1
  0 KSP Residual norm 8.0
    0 KSP Residual norm 2.0
    1 KSP Residual norm 0.1
    2 KSP Residual norm 0.01
  1 KSP Residual norm 4.0
"""


def test_a_plain_monitor_gives_estimates_relative_to_its_first_norm():
    (trace,) = read_ksp_monitor(PLAIN.splitlines(), n=100)
    check_complete(trace)
    assert trace["epoch"]["residual"].values == pytest.approx([1.0, 0.25, 1e-7])
    assert trace.outcome == "converged" and trace.method_name == "PETSc CG, preconditioned"
    assert not trace.residual_is_measured and "estimate" in trace["epoch"]["residual"].attrs["how"]


def test_a_monitor_of_true_residuals_gives_them_and_a_limit_is_no_convergence():
    (trace,) = read_ksp_monitor(TRUE.splitlines(), n=100, solver="gmres", preconditioned=False)
    assert trace["epoch"]["residual"].values == pytest.approx([1.0, 0.5])
    assert trace["epoch"]["residual"].attrs["how"].endswith("as PETSc logged it")
    assert trace.outcome == "max_epochs" and trace.method_name == "PETSc GMRES"


def test_inner_solves_become_traces_of_their_own_and_one_without_an_end_is_interrupted():
    found = read_ksp_monitor(NESTED.splitlines(), n=10)
    assert [len(trace["epoch"]["epoch"]) for trace in found] == [2, 2, 3]
    assert [trace.outcome for trace in found] == ["converged", "interrupted", "interrupted"]


def test_a_log_of_a_thousand_iterations_is_one_solve():
    lines = [f"{number:3d} KSP Residual norm {0.99**number:.6e}" for number in range(1_200)]
    (trace,) = read_ksp_monitor(lines, n=10)
    assert trace["epoch"].sizes["epoch"] == 1_200


def test_figures_and_diagnoses_read_a_log_of_petsc(tmp_path):
    trace = read_ksp_monitor(PLAIN.splitlines(), n=100)[0]
    trace.save(tmp_path / "petsc.zarr")
    opened = apviz.open_trace(tmp_path / "petsc.zarr")
    assert apviz.diagnose(opened).advice and apviz.plots.residuals(opened).data
    assert math.isnan(float(opened["epoch"]["seconds"][0]))


def test_a_text_that_is_no_log_is_named():
    with pytest.raises(ValueError, match="KSP monitor"):
        read_ksp_monitor(["hello"], n=10)
