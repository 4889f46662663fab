"""Races: solves compute and record the same as alone, and waiting takes none of their time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import torch

import apviz
from apviz import racing
from apviz.comparison import compare
from apviz.racing import Turns, race

N = 160


def system():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(N, 2, generator=generator)
    b = torch.cat([torch.sin(5 * x[:, :1]), torch.randn(N, 2, generator=generator)], 1)
    return apviz.KernelSystem(x, b, apviz.Matern52(lengthscale=0.4), noise=0.2, dataset="made", device="cpu")


SOLVERS = [
    apviz.AlternatingProjection(block_size=40, tol=1e-2),
    apviz.AlternatingProjection(block_size=30, rule="random", tol=1e-2),
    apviz.solvers.overlapping(tol=1e-2),
    apviz.ConjugateGradient(tol=1e-2),
    apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=20), tol=1e-2),
    apviz.Cholesky(tol=1e-2),
]
#: solves that run until they are stopped
ENDLESS = [
    apviz.AlternatingProjection(block_size=20, rule=rule, tol=1e-200, max_epochs=10**6) for rule in ("cyclic", "random")
]


@pytest.fixture
def short_turns(monkeypatch):
    """Make every turn one update long."""
    monkeypatch.setattr(racing, "TURN_SECONDS", 0.0)


class Work(apviz.Hook):
    """Logs the solve of every update, and the work after it."""

    def __init__(self, name, log):
        self.name, self.log = name, log

    def on_update(self, update):
        self.log.append((self.name, update.work))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    return {each.solver.method.name: each.trace for each in compare(system(), SOLVERS, folder)}


@pytest.mark.parametrize("by", ["work", "seconds"])
def test_a_race_computes_bit_for_bit_the_same_as_consecutive_solves(alone, tmp_path, short_turns, by):
    raced = {each.solver.method.name: each.trace for each in race(system(), SOLVERS, tmp_path / by, Turns(by))}
    assert set(raced) == set(alone) and len(alone) == len(SOLVERS)
    for label, trace in raced.items():
        assert trace.converged
        for group in ("epoch", "update"):
            other = alone[label][group]
            for name, values in trace[group].data_vars.items():
                if name != "seconds":
                    np.testing.assert_array_equal(values, other[name], err_msg=f"{label}: {name}")


def test_the_seconds_of_all_traces_of_a_race_add_up_to_at_most_its_duration(tmp_path, short_turns):
    started = time.perf_counter()
    traces = [each.trace for each in race(system(), SOLVERS, tmp_path)]
    took = time.perf_counter() - started
    assert sum(float(trace["epoch"]["seconds"][-1]) for trace in traces) <= took
    for trace in traces:
        assert (np.diff(trace["epoch"]["seconds"].values) >= 0).all()
        updates = trace["update"]["seconds"].values
        assert (np.diff(updates) >= 0).all() and updates[-1] <= trace.attrs["seconds"] <= took


def test_the_solve_with_the_least_work_runs_next(tmp_path, short_turns):
    log, done = [], {}
    solvers = {f"{i}": solver for i, solver in enumerate(SOLVERS[:2] + SOLVERS[3:5])}
    names = {solver: name for name, solver in solvers.items()}
    list(race(system(), list(solvers.values()), tmp_path, hooks=lambda solver: [Work(names[solver], log)]))
    last = {name: max(place for place, (who, _) in enumerate(log) if who == name) for name in solvers}
    for place, (name, work) in enumerate(log):
        racing_still = [other for other in solvers if other != name and last[other] > place]
        if name in done and all(other in done for other in racing_still):
            assert all(done[name] <= done[other] for other in racing_still), (place, name, done)
        done[name] = work
    assert len(log) > 50


def test_stop_ends_every_solve_and_prevents_others_from_starting(tmp_path, short_turns):
    turns = Turns()

    class StopSoon(apviz.Hook):
        def on_epoch(self, epoch):
            if epoch.number == 2:
                turns.stop("asked for by the test")

    traces = [each.trace for each in race(system(), ENDLESS, tmp_path, turns, hooks=lambda solver: [StopSoon()])]
    assert [trace.outcome for trace in traces] == ["stopped", "stopped"]
    assert all("asked for by the test" in trace.attrs["stop_message"] for trace in traces)
    before = Turns()
    before.stop("at once")
    assert list(race(system(), ENDLESS, tmp_path / "none", before)) == []


class Fails(apviz.Hook):
    """Raises at the second epoch."""

    def __init__(self, error):
        self.error = error

    def on_epoch(self, epoch):
        if epoch.number == 2:
            raise self.error


def test_a_solve_that_fails_does_not_end_the_race(tmp_path):
    def hooks(solver):
        return [Fails(ValueError("K is odd"))] if solver is SOLVERS[3] else []

    outcomes = list(race(system(), SOLVERS, tmp_path, hooks=hooks))
    assert {each.solver: each.error for each in outcomes} == {s: "K is odd" * (s is SOLVERS[3]) for s in SOLVERS}
    assert all(each.trace.converged for each in outcomes if not each.error)


def test_an_error_in_a_hook_ends_the_race_and_stops_the_other_solves(tmp_path):
    def hooks(solver):
        return [Fails(KeyError("broken"))] if solver is ENDLESS[0] else []

    with pytest.raises(KeyError, match="broken"):
        list(race(system(), ENDLESS, tmp_path, hooks=hooks))
    traces = [apviz.open_trace(path) for path in tmp_path.glob("*.zarr")]
    assert {trace.outcome for trace in traces} <= {"stopped", "interrupted"}


def test_a_race_compares_work_or_seconds():
    with pytest.raises(ValueError, match=r"by must be work or seconds, got 'epochs'"):
        Turns("epochs")


@pytest.mark.slow
def test_a_killed_race_leaves_traces_that_open(tmp_path):
    program = f"""
        import pathlib
        from apviz.racing import race
        from tests.test_racing import ENDLESS, system
        list(race(system(), ENDLESS, pathlib.Path({str(tmp_path)!r})))
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])
    deadline = time.monotonic() + 60
    while len([path for path in tmp_path.glob("*.zarr") if (path / "epoch" / "residual" / "c").exists()]) < 2:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    traces = [apviz.open_trace(path) for path in tmp_path.glob("*.zarr")]
    assert [trace.outcome for trace in traces] == ["interrupted", "interrupted"]
    assert all(trace["epoch"].sizes["epoch"] >= 1 for trace in traces)
