"""What a page sees of a solve that runs, and what that costs the solve."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("panel")

import apviz
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
def test_where_a_solve_is_is_said_at_most_eight_times_a_second(monkeypatch, pause, most):
    seconds = iter(range(1_000_000))
    monkeypatch.setattr(live, "time", SimpleNamespace(perf_counter=lambda: pause * next(seconds)))
    x = torch.linspace(0, 1, 60)[:, None]
    system = apviz.KernelSystem(x, torch.sin(5 * x[:, 0]), apviz.Matern52(0.3), 0.1, operator="dense")
    hook = Texts()
    solution = apviz.solve(system, apviz.AlternatingProjection(20, tol=1e-9, max_epochs=20),
                           hooks=[apviz.Recorder(), hook])  # fmt: skip
    updates = 3 * solution.epochs
    assert updates > 20 and hook.said[0].startswith("AP gauss-southwell b=20: update 1, block ")
    assert len(hook.said) == min(updates, most)
