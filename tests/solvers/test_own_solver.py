"""The guide's solver of 40 lines solves, and is recorded, certified, compared and drawn like built-in ones."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

import apviz
from apviz.comparison import compare
from apviz.solvers import EpochEnd, Remeasure, Solver, Updated, attempt

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "own_solver.md"
N, NOISE = 120, 0.5


@pytest.fixture(scope="module")
def heavy_ball():
    found = {"__name__": "guide"}
    code, *_ = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    exec(compile(code, str(GUIDE), "exec"), found)
    assert str(found["solution"].stop_reason) == "converged"
    return found["HeavyBall"]


@pytest.fixture(scope="module")
def dense():
    rng = np.random.default_rng(0)
    x, b = rng.uniform(-1, 1, (N, 2)), rng.standard_normal((N, 3)) * [1.0, 100.0, 0.01]
    k = np.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(2) / 0.3**2) + NOISE * np.eye(N)
    system = apviz.KernelSystem(x, b, apviz.RBF(lengthscale=0.3), noise=NOISE, dtype=torch.float64, device="cpu")
    return system, k, b, float(np.linalg.eigvalsh(k)[-1])


def test_it_finds_the_dense_solution_and_reports_the_residual_of_its_weights(heavy_ball, dense):
    system, k, b, largest = dense
    solution = apviz.solve(system, heavy_ball(largest=largest, tol=1e-9))
    np.testing.assert_allclose(solution.weights.numpy(), np.linalg.solve(k, b), rtol=1e-6, atol=1e-8)
    r = np.linalg.norm(b - k @ solution.weights.numpy(), axis=0) / np.linalg.norm(b, axis=0)
    np.testing.assert_allclose(solution.residual_per_rhs.numpy(), r, rtol=1e-3)
    assert solution.converged and solution.work == pytest.approx(solution.epochs + 1, abs=3)


def test_it_is_recorded_update_by_update_with_the_energy_of_dense_algebra(heavy_ball, dense):
    system, k, b, largest = dense
    recorder = apviz.Recorder()
    solution = apviz.solve(system, heavy_ball(largest=largest, tol=1e-6), [recorder])
    trace, w = recorder.trace, solution.weights.numpy()
    assert trace["update"].sizes["update"] == solution.epochs
    h = 0.5 * np.trace(w.T @ k @ w) - np.trace(b.T @ w)
    assert float(trace["epoch"]["energy"][-1]) == pytest.approx(h, rel=1e-9)
    assert -float(trace["update"]["energy_decrease"].sum()) == pytest.approx(h, rel=1e-6)


def test_it_can_be_compared_and_drawn_with_our_solvers(heavy_ball, dense, tmp_path):
    system, _, _, largest = dense
    solvers = [heavy_ball(largest=largest), apviz.ConjugateGradient()]
    outcomes = list(compare(system, solvers, str(tmp_path)))
    assert [outcome.trace.converged for outcome in outcomes] == [True, True]
    figure = apviz.plots.residuals([outcome.trace for outcome in outcomes])
    assert any("HeavyBall" in (curve.name or "") for curve in figure.data)


def test_a_solver_that_falsifies_its_residual_cannot_claim_convergence(dense):
    class Liar(Solver):
        name = label = "liar"

        def epochs(self, prepared, state):
            while True:
                state.r.zero_()  # W does not change
                yield Updated(-1, torch.zeros(3, dtype=torch.float64), is_whole_epoch=True)
                yield EpochEnd()

    solution = attempt(dense[0], Liar())
    assert not solution.converged and solution.residual == pytest.approx(1.0)


def test_a_solver_that_requests_its_residual_gets_b_minus_kw_and_stagnates_if_it_returns(dense):
    system, k, b, _ = dense
    got = []

    class Asks(Solver):
        name = label = "asks"

        def epochs(self, prepared, state):
            state.w.fill_(0.25)
            got.append((yield Remeasure()).clone())
            yield Updated(-1, torch.zeros(3, dtype=torch.float64))
            yield EpochEnd()

    solution = attempt(system, Asks())
    units = 2.0 ** np.floor(np.log2(np.abs(b).max(0)))  # right-hand sides are divided by powers of two
    np.testing.assert_allclose(got[0].numpy(), b / units - k @ np.full((N, 3), 0.25), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(solution.weights.numpy(), np.broadcast_to(0.25 * units, (N, 3)))
    assert str(solution.stop_reason) == "stagnated" and solution.residual_is_measured


@dataclass(frozen=True)
class Own(Solver):
    """A solver that yields the events of a test."""

    events: Callable
    name: ClassVar[str] = "own"
    label: ClassVar[str] = "own"

    def epochs(self, prepared, state):
        yield from self.events(state)


def nothing(state):
    return torch.zeros(3, dtype=torch.float64)


def moves_after_it_was_measured(state):
    while True:
        yield Remeasure()
        state.w += 1.0
        yield Updated(-1, nothing(state))
        yield EpochEnd()


def moves_twice_after_it_was_measured(state):
    yield Remeasure()
    for _ in range(2):
        state.w += 1.0
        yield Updated(-1, nothing(state))
    yield EpochEnd()


def moves_and_returns(state):
    state.w += 1.0
    yield Updated(-1, nothing(state))


@pytest.mark.parametrize(
    "events", [moves_after_it_was_measured, moves_twice_after_it_was_measured, moves_and_returns],
    ids=lambda events: events.__name__,
)  # fmt: skip
def test_whatever_a_solver_yields_the_reported_residual_is_that_of_its_final_weights(dense, events):
    system, k, b, _ = dense
    solution = attempt(system, Own(events), until=apviz.Stopping(tol=1e-3, max_epochs=2))
    r = np.linalg.norm(b - k @ solution.weights.numpy(), axis=0) / np.linalg.norm(b, axis=0)
    assert not solution.converged and solution.residual_is_measured
    np.testing.assert_allclose(solution.residual_per_rhs.numpy(), r, rtol=1e-9)


def test_a_solver_that_returns_a_solution_has_converged(dense):
    system, k, b, _ = dense
    units = torch.from_numpy(2.0 ** np.floor(np.log2(np.abs(b).max(0))))

    def solves(state):
        state.w += torch.from_numpy(np.linalg.solve(k, b)) / units
        yield Updated(-1, nothing(state))

    solution = attempt(system, Own(solves), until=apviz.Stopping(tol=1e-8))
    assert solution.converged and solution.residual_is_measured
    assert apviz.solve(system, apviz.Cholesky(), until=apviz.Stopping(tol=1e-2, min_epochs=5)).converged


@pytest.mark.parametrize("event", [EpochEnd, None, "epoch"], ids=str)
def test_an_unknown_event_is_rejected_with_the_list_of_events(dense, event):
    with pytest.raises(TypeError, match="epochs of Own must yield objects of Updated, EpochEnd, Remeasure or Continue"):
        attempt(dense[0], Own(lambda state: iter([event])))


def test_the_trace_of_a_solver_without_a_tolerance_states_the_one_used(dense):
    recorder = apviz.Recorder()
    attempt(dense[0], Own(moves_and_returns), [recorder], until=apviz.Stopping(tol=0.05))
    assert recorder.trace.attrs["tol"] == 0.05
    assert apviz.diagnose(recorder.trace).evidence
