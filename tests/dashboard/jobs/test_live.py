"""The live view of a running solve, and its cost."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("panel")

import apviz
from apviz import Stopping
from apviz.dashboard.jobs import live
from apviz.dashboard.jobs.live import LiveHook


class Texts(LiveHook):
    """Keeps every text about an update."""

    def __init__(self):
        self.said = []
        super().__init__(lambda: None)

    def __setattr__(self, name, value):
        if name == "text" and ": update" in value:
            self.said.append(value)
        super().__setattr__(name, value)


@pytest.mark.parametrize(("pause", "most"), [(1e-4, 1), (1.0, 1_000)])
def test_progress_is_reported_at_most_eight_times_a_second(monkeypatch, pause, most):
    seconds = iter(range(1_000_000))
    monkeypatch.setattr(live, "time", SimpleNamespace(perf_counter=lambda: pause * next(seconds)))
    x = torch.linspace(0, 1, 60)[:, None]
    system = apviz.KernelSystem(x, torch.sin(5 * x[:, 0]), apviz.Matern52(lengthscale=0.3), noise=0.1, operator="dense")
    hook = Texts()
    solution = apviz.solve(system, apviz.AlternatingProjection(block_size=20, tol=1e-9, max_epochs=20),
                           hooks=[apviz.Recorder(), hook])  # fmt: skip
    updates = 3 * solution.epochs
    assert updates > 20 and hook.said[0].startswith("Alternating projection (greedy, b = 20): update 1, block ")
    assert len(hook.said) == min(updates, most)


def forecasts(residuals, cap=100, tol=0.01, seconds=2.0):
    """Return `(seconds_left, until_cap)` after each epoch of `seconds`, and the hook."""
    hook = LiveHook(lambda: None)
    solver = apviz.ConjugateGradient(tol=tol, max_epochs=cap)
    hook.on_start(
        SimpleNamespace(hooks=[apviz.Recorder()], solver=solver, stopping=Stopping.of(solver), setup_seconds=1.0)
    )
    found = []
    for number, residual in enumerate(residuals):
        hook._forecast(SimpleNamespace(number=number, residual=residual, seconds=1.0 + seconds * number))
        found.append((hook.seconds_left, hook.until_cap))
    return found, hook


def test_a_steadily_falling_residual_gives_the_time_left():
    found, hook = forecasts([0.5**k for k in range(6)])
    for number, (left, until_cap) in enumerate(found[4:], start=4):
        assert left == pytest.approx(2.0 * (math.log(100) / math.log(2) - number)) and not until_cap
    assert 0.7 < hook.progress < 0.8


def test_for_a_residual_that_hardly_falls_the_time_left_ends_at_the_epoch_limit():
    for residuals in ([1.0, 0.99999, 0.99998, 0.99997, 0.99996], [1.0, 1.2, 1.5, 1.4, 1.6]):
        found, hook = forecasts(residuals)
        number = len(residuals) - 1
        assert found[-1] == (pytest.approx(2.0 * (100 - number)), True)
        assert hook.progress == pytest.approx(number / 100)


def test_the_time_left_counts_down_to_the_limit_while_the_rate_falls():
    left = [seconds for seconds, _ in forecasts([1 / (1 + k) ** 0.3 for k in range(100)])[0]]
    assert left[-1] == pytest.approx(2.0) and max(each for each in left if math.isfinite(each)) <= 2.0 * 97
    assert all(later < sooner for sooner, later in zip(left[50:], left[51:], strict=False))


def test_no_time_is_shown_before_a_rate_is_known():
    for residuals in ([1.0], [1.0, 0.9], [1.0, 0.9, 0.8, 0.7]):
        assert math.isnan(forecasts(residuals)[1].seconds_left)


def test_no_time_is_shown_while_it_would_increase():
    # by the later half alone, it once showed 32 s, then 47, 79, 131, 211 s
    residuals = [1 / (1 + k) for k in range(60)]
    found, _ = forecasts(residuals, cap=10_000, tol=1e-3)
    assert all(math.isnan(left) for left, _ in found)
    # a limit that comes before the forecasts by both rates is known
    found, _ = forecasts(residuals, cap=70, tol=1e-3)
    assert found[-1] == (pytest.approx(2.0 * 11), True)


def test_a_time_that_becomes_unknown_is_no_longer_shown():
    steady = [0.9**k for k in range(9)]
    assert math.isfinite(forecasts(steady, cap=10_000)[1].seconds_left)
    stuck = [*steady, *[steady[-1]] * 3]
    assert math.isnan(forecasts(stuck, cap=10_000)[1].seconds_left)


def test_a_time_has_a_suitable_unit():
    assert [live.duration(each) for each in (40.2, 700, 14_000)] == ["40 s", "12 min", "3.9 h"]


def test_with_a_forecast_the_time_left_comes_from_its_progress():
    x = torch.linspace(0, 1, 300, dtype=torch.float64)
    system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
    progress = apviz.advise(system).progress()
    hook, told = LiveHook(lambda: None, progress), []

    class Reader(apviz.Hook):
        def on_epoch(self, epoch):
            told.append((hook.seconds_left, progress.left.likely, hook.until_cap))

    apviz.solve(system, apviz.ConjugateGradient(tol=1e-2), hooks=[apviz.Recorder(), progress, hook, Reader()])
    assert len(told) > 3 and all(left == expected and not cap for left, expected, cap in told)
