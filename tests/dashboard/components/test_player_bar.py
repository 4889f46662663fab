"""Play, pause, step and speed."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard.components.animation_card import PlayerBar


def test_the_player_begins_at_the_recorded_update_before_the_one_asked_for():
    player = PlayerBar(lambda k: None, lambda k: None, lambda k: None, 400)
    player.show([0, 10, 20, 30], 25)
    assert player.update == 20
    player.show([], 5)
    assert player.update == 0 and not player.view.visible


def test_the_fastest_speed_is_one_that_a_browser_keeps_up_with():
    paces = []
    player = PlayerBar(lambda k: None, lambda k: None, paces.append, 400)
    player.view.interval = 200
    player.view.interval = 20
    assert paces == [200, 100] and player.view.interval == 100
