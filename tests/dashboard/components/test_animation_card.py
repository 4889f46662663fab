"""A chart that moves, and the browser that keeps it waiting."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

pytest.importorskip("panel")

import apviz
from apviz.dashboard.components.animation_card import AnimationCard
from apviz.plots import FittedFunction


def test_a_frame_waits_until_the_browser_has_drawn_the_one_before_and_the_last_is_never_lost(tmp_path):
    x = torch.linspace(-1, 1, 60)[:, None]
    system = apviz.KernelSystem(x, torch.sin(5 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, operator="dense")
    recorder = apviz.Recorder(rows=True, snapshots=range(5), weights=True)
    apviz.solve(system, apviz.AlternatingProjection(block_size=20, tol=1e-6), hooks=[recorder])
    trace = recorder.trace
    card = AnimationCard(
        "f", "t", lambda trace, theme: FittedFunction(trace, theme=theme), takes=lambda trace: True,
        table=lambda trace, update: pd.DataFrame(), axes=300, lecture=False,
    )  # fmt: skip
    card.draw(trace, "light", 0)
    card.chart.drawn += 1
    card.go_to(1)
    first = card.chart.frame
    assert "update 1" in first
    card.go_to(2)
    card.go_to(3)
    assert card.chart.frame == first
    card.chart.drawn += 1
    card.advance()
    assert "update 3" in card.chart.frame
    card.draw(trace, "dark", 3)
    assert card.chart.frame == "" and "update 3" in card.chart.base
