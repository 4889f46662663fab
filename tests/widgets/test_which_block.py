"""Which block next: bet, reveal, and what every block would have removed."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ipywidgets", reason="the widgets need ipywidgets: pip install 'apviz[notebook]'")

from apviz.widgets import WhichBlock


def told(traces) -> list[float]:
    """Numbers along y."""
    return [value for each in traces for value in each.y if value is not None]


def shown(widget: WhichBlock) -> list[str]:
    return [figure.to_json() for figure in widget.figures]


def test_nothing_is_told_before_the_reveal():
    widget = WhichBlock(step=3)
    following, curves = widget.figures
    assert not told(following.data[2:]) and not told(curves.data)
    # and it is gone again when the button is let go
    widget.controls["reveal"].widget.value = True
    following, curves = widget.figures
    assert all(told([each]) for each in [*following.data[2:], *curves.data])
    widget.controls["reveal"].widget.value = False
    following, curves = widget.figures
    assert not told(following.data[2:]) and not told(curves.data)


def test_the_lit_bar_is_what_the_energy_falls_by_in_the_next_update():
    widget = WhichBlock(reveal=True, step=4)
    trajectory = widget.comparison.trajectories["gauss-southwell"]
    k, b = trajectory.span.gram, trajectory.b

    def energy(step: int) -> float:
        w = trajectory.steps[step].weights
        return float(0.5 * w @ k @ w - b @ w)

    solution = np.linalg.solve(k, b)
    left = energy(4) - float(0.5 * solution @ k @ solution - b @ solution)
    bar = widget.figures[0].data[2].y[trajectory.steps[5].block]
    assert bar == pytest.approx(100 * (energy(4) - energy(5)) / left, rel=1e-8)


def test_one_step_moves_all_rules():
    widget = WhichBlock(reveal=True)
    widget.controls["step"].widget.value = 9
    assert [mark.x for mark in widget.figures[1].data[4:]] == [(9,)] * 4


@pytest.mark.parametrize(
    ("control", "value"),
    [
        ("step", 5), ("bet_rule", "random"), ("bet_block", 2), ("reveal", False), ("rule", "cyclic"),
        ("data", "one bump"), ("block_size", 6), ("lengthscale", 0.05), ("noise", 0.5), ("seed", 3),
    ],
)  # fmt: skip
def test_every_control_moves_something(control, value):
    widget = WhichBlock(reveal=True)
    before = shown(widget)
    widget.controls[control].widget.value = value
    assert shown(widget) != before


def test_presets_are_what_they_say():
    widget = WhichBlock()
    widget.choose("little noise: gauss-southwell comes last")
    assert widget.comparison.ranking(24)[-1] == "gauss-southwell"
    widget.choose("crowded: the largest ‖r_I‖ is not the most energy")
    first = widget.comparison.choices("gauss-southwell", 0)
    assert first.decrease_per_block[first.taken["gauss-southwell"]] < 0.1 * first.decrease_per_block.max()
    widget.choose("one bump: most blocks have nothing to give")
    first = widget.comparison.choices("gauss-southwell", 0)
    assert (first.decrease_per_block < 0.1 * first.left).sum() >= 4 and widget.comparison.ranking(24)[
        0
    ] == "gauss-southwell"
    far = widget.comparison.choices("gauss-southwell", 0)
    widget.choose("much noise: the guarantee comes closer")
    near = widget.comparison.choices("gauss-southwell", 0)
    assert near.guaranteed / near.decrease_per_block.max() > far.guaranteed / far.decrease_per_block.max()


def test_a_bet_on_a_block_that_larger_blocks_leave_out_is_on_the_last():
    widget = WhichBlock(bet_block=9, block_size=12)
    assert "you bet on block 2" in widget.figures[0].layout.title.text


def test_static_figures_are_revealed_for_nobody_could_press_a_button_there():
    widget = WhichBlock()
    following, curves = widget.static_figures()
    assert not widget.value("reveal") and all(None not in each["y"] for each in curves["data"])
    assert len(following["frames"]) == 25
