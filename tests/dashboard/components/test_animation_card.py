"""Animated charts: waiting for the browser, and the player with play, pause, step and speed."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

pytest.importorskip("panel")

import apviz
from apviz.dashboard.components.animation_card import AnimationCard, PlayerBar
from apviz.plots import FittedFunction


def test_a_frame_waits_for_the_previous_one_and_the_last_is_never_lost(tmp_path):
    x = torch.linspace(-1, 1, 60)[:, None]
    system = apviz.KernelSystem(x, torch.sin(5 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, operator="dense")
    recorder = apviz.Recorder(rows=True, snapshots=range(5), weights=True)
    apviz.solve(system, apviz.AlternatingProjection(block_size=20, tol=1e-6), hooks=[recorder])
    trace = recorder.trace
    card = AnimationCard(
        "f", "t", lambda trace, theme, others: FittedFunction(trace, theme=theme), takes=lambda trace: True,
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


def test_the_player_starts_at_the_last_recorded_update_before_the_requested_one():
    player = PlayerBar(lambda k: None, lambda k: None, lambda k: None, 400)
    player.show([0, 10, 20, 30], 25)
    assert player.update == 20
    player.show([], 5)
    assert player.update == 0 and not player.view.visible


def test_a_browser_keeps_up_with_the_fastest_speed():
    paces = []
    player = PlayerBar(lambda k: None, lambda k: None, paces.append, 400)
    player.view.interval = 200
    player.view.interval = 20
    assert paces == [200, 100] and player.view.interval == 100
