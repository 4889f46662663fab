"""The widgets without a browser: what their controls do to the figures."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ipywidgets", reason="the widgets need ipywidgets: pip install 'apviz[notebook]'")

from apviz.widgets import ProjectionPlayer


def curve(player: ProjectionPlayer, name: str) -> np.ndarray:
    return np.asarray(next(each.y for each in player.figures[0].data if each.name == name))


def test_moving_the_step_moves_the_curve_towards_the_goal():
    player = ProjectionPlayer()
    goal = curve(player, "goal: the posterior mean")
    gaps = []
    for step in (0, 5, 30):
        player.controls["step"].widget.value = step
        gaps.append(np.abs(curve(player, "s⁽ʲ⁾ so far") - goal).max())
    assert gaps[0] > gaps[1] > gaps[2]


def test_the_residual_is_zero_on_the_block_that_is_lit():
    player = ProjectionPlayer(step=4)
    residual = player.figures[0].data[-1]
    lit = np.asarray(residual.marker.size) == 12
    assert lit.sum() == 4 and np.abs(np.asarray(residual.y)[lit]).max() < 1e-10


@pytest.mark.parametrize(("size", "sizes"), [(5, [5, 5, 5, 1]), (4, [4] * 4), (20, [16])])
def test_a_block_owns_as_many_points_as_the_control_says_and_the_last_what_is_left(size, sizes):
    player = ProjectionPlayer(points=16, block_size=size)
    assert [len(block) for block in player.trajectory.blocks] == sizes


def test_the_speed_is_that_of_the_player_and_goes_back_at_a_reset():
    player = ProjectionPlayer()
    player.controls["speed"].widget.value = 4.0
    assert player.player.interval == 250
    player.reset()
    assert player.player.interval == 1000


def test_an_unknown_control_gets_a_message():
    with pytest.raises(ValueError, match="speeed is no control of ProjectionPlayer; there are step"):
        ProjectionPlayer(speeed=2)
