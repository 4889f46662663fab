"""What would change the advice, checked against solves and rehearsals with the change made."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest
import torch

import apviz
from apviz.advice import Alternative
from apviz.advice.alternatives import _looser, _notable, _tighter
from apviz.advice.forecast import Band, Forecast
from apviz.advice.pilots import PilotSystem
from apviz.advice.rehearsing import Budget, Candidate, Rehearsing
from apviz.solvers import attempt, overlapping
from apviz.solvers.choosing.costs import CostModel
from tests.advice.test_pilots import made

LOCAL = {"lengthscale": 0.1, "noise": 1e-3}
CG = apviz.ConjugateGradient


def with_columns(system, b, **settings):
    return apviz.KernelSystem(
        system.x, b, system.kernel, noise=system.operator.noise, device="cpu", **settings
    )  # fmt: skip


def rehearsed(system, solver):
    """Return the rehearsals of a solver on 400 and 800 rows of a system."""
    rehearsing = Rehearsing(system, CostModel(system.operator, 4), 800, 0, Budget(time.perf_counter, 0.0))
    candidate = rehearsing.begin(solver, solver)
    rehearsing.decide([candidate])
    return rehearsing, candidate


def forecast_of(seconds, *, chance=0.9, bounded=True, solver=None):
    band = Band(seconds, seconds, seconds if bounded else math.inf)
    return Forecast(solver or CG(), band, band, 0.0, chance, "why")


def said(then, **now):
    """Return the sentence on a change of the forecasts from `now` to `then`."""
    candidates = {name: Candidate(CG(), CG(), each) for name, each in now.items()}
    found = _notable("to 0.001", then, candidates)
    return found and found.sentence


# --- tolerances ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("looser", [0.03, 0.1, 0.5])
def test_a_rehearsal_gives_the_cost_of_a_looser_tolerance(looser):
    pilot = PilotSystem(made(n=900, lengthscale=0.2, noise=1e-3), 300)
    through, ended = (pilot.rehearse(CG(tol=tol), 1e3) for tol in (0.01, looser))
    assert through.to(looser).epochs == pytest.approx(ended.epochs, rel=1e-6)
    assert through.to(looser).work == pytest.approx(ended.work, rel=0.01)
    assert through.to(1e-9) is None


def test_the_forecast_for_a_looser_tolerance_agrees_with_a_solve():
    system = made(n=3_000, **LOCAL)
    solver = overlapping(tol=1e-3).resolve(system.operator, 4)[0]
    rehearsing, candidate = rehearsed(system, solver)
    change, forecasts = _looser(rehearsing, {"blocks": candidate}, 0.05)
    assert change == "to 0.05"
    took = attempt(system, replace(solver, tol=0.05)).work
    assert took / 1.5 < forecasts["blocks"].work.likely < 1.5 * took


@pytest.mark.slow
def test_the_forecast_for_a_tighter_tolerance_agrees_with_a_solve():
    system = made(n=3_000, lengthscale=0.3, noise=1e-2)
    rehearsing, candidate = rehearsed(system, CG(tol=1e-2))
    change, forecasts = _tighter(rehearsing, {"CG": candidate}, 1e-3)
    assert change == "to 0.0001"
    took = [attempt(system, CG(tol=tol)).work for tol in (1e-2, 1e-4)]
    more = forecasts["CG"].work.likely / candidate.forecast.work.likely
    assert took[1] > 1.2 * took[0] and more == pytest.approx(took[1] / took[0], rel=0.15)


# --- right-hand sides ---------------------------------------------------------------------------------------------


def test_the_first_right_hand_side_takes_as_long_alone_as_with_others():
    system = made(n=900, lengthscale=0.2, noise=0.05)
    alone = with_columns(system, system.b[:, :1])
    together, own = (PilotSystem(each, 300).rehearse(CG(tol=0.01), 1e3) for each in (system, alone))
    assert together.epochs > own.epochs  # random right-hand sides are less smooth
    # products of one column and of four are rounded differently, which changes CG by less than an iteration
    assert together.to(0.01, alone=True).epochs == pytest.approx(own.epochs, abs=1)


def test_random_right_hand_sides_added_to_one_take_as_long_as_those_of_a_training():
    system = made(n=900, lengthscale=0.2, noise=1e-3)  # its second to fourth right-hand sides are random signs
    alone = with_columns(system, system.b[:, :1])
    given, drawn = PilotSystem(system, 300), PilotSystem(alone, 300, probes=3)
    assert drawn.system.b.shape == (300, 4) and set(drawn.system.b[:, 1:].unique().tolist()) == {-1.0, 1.0}
    first, second = (each.rehearse(CG(tol=0.01), 1e3).epochs for each in (given, drawn))
    assert second == pytest.approx(first, rel=0.1)


# --- dtypes -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_if_rounding_stops_all_methods_float64_would_change_the_advice():
    system = made(n=2_400, lengthscale=1.5, noise=1e-6)
    small = apviz.KernelSystem(system.x.float(), system.b.float(), system.kernel, noise=1e-6, device="cpu")
    solver = CG(preconditioner=apviz.RandomlyPivotedCholesky(rank=300), tol=1e-4, max_epochs=150)
    advice = apviz.advise(small, {"CG": solver})
    (change,) = [each for each in advice.alternatives if each.change == "float64"]
    assert advice.best.chance < 0.5 and not attempt(small, solver).converged
    assert "is expected to converge" in change.sentence and attempt(system, solver).converged


# --- what is worth saying -----------------------------------------------------------------------------------------


def test_alternatives_with_the_same_method_at_about_the_same_cost_are_omitted():
    assert said({"a": forecast_of(1.4), "b": forecast_of(1.2)}, a=forecast_of(1.0)) is None
    assert said({}, a=forecast_of(1.0)) is None


def test_another_cost_another_method_and_non_convergence_are_each_reported():
    now = {"a": forecast_of(1.0), "b": forecast_of(3.0)}
    assert said({"a": forecast_of(2.0)}, **now) == "To 0.001: about 2 s instead of 1 s with a."
    swap = {"a": forecast_of(9.0), "b": forecast_of(4.0)}
    assert said(swap, **now) == "To 0.001: use b, about 4 s. a would take about 9 s."
    swap["a"] = forecast_of(9.0, bounded=False)
    assert said(swap, **now) == "To 0.001: use b, about 4 s. a would take about 9 s or more."
    swap["a"] = forecast_of(9.0, chance=0.1)
    assert said(swap, **now) == "To 0.001: use b, about 4 s. a is not expected to converge."
    assert said({"a": forecast_of(9.0, bounded=False)}, **now) == "To 0.001: a would take about 9 s or more."
    nowhere = said({"a": forecast_of(9.0, chance=0.1)}, **now)
    assert nowhere == "To 0.001: no rehearsed method is expected to converge. a: why."
    hopeless = said({"a": forecast_of(2.0)}, a=forecast_of(1.0, chance=0.1))
    assert hopeless == "To 0.001: a is expected to converge, in about 2 s."


def test_alternatives_are_printed_with_the_advice():
    advice = replace(apviz.advise(made(n=300)), alternatives=(Alternative("to 0.1", "a", Band(1, 1, 1), "To 0.1: b."),))
    assert "To 0.1: b." in str(advice).splitlines()


# --- costs -------------------------------------------------------------------------------------------------------


def test_a_cost_is_measured_once_per_kind_of_system_until_it_is_forgotten():
    class Clock:
        reads = 0

        def __call__(self):
            self.reads += 1
            return float(self.reads)

    clock, system = Clock(), made(n=500)
    first = CostModel(system.operator, 2, clock)
    entry, block, reads = first.entry, first.block(50), clock.reads
    noisier = apviz.KernelSystem(system.x, system.b, system.kernel, noise=0.5, device="cpu")
    second = CostModel(noisier.operator, 2, clock)
    assert (second.entry, second.block(50), clock.reads) == (entry, block, reads) and reads > 0
    for other in (lambda: second.block(60), lambda: second.of_columns(3).entry):
        other()
        assert clock.reads > reads
        reads = clock.reads
    CostModel.forget()
    assert second.entry > 0 and clock.reads > reads


def test_float64_never_costs_less_than_float32_even_if_other_processes_disturb_the_timings(monkeypatch):
    timings = iter(range(100, 0, -1))  # each timing is shorter than the one before
    monkeypatch.setattr(CostModel, "_least", lambda self, act: float(next(timings)))
    CostModel.forget()
    costs = CostModel(made(n=500, dtype=torch.float32).operator, 2)
    assert 0 < costs.entry <= costs.in_dtype(torch.float64).entry
    CostModel.forget()


def test_a_clock_that_stands_still_gives_no_cost_of_zero():
    costs = CostModel(made(n=300).operator, 2, lambda: 0.0)
    assert min(costs.entry, costs.entry_of_pass, costs.flop, costs.block(50), costs.projection(50)) > 0
