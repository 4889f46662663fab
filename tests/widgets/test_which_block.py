"""The widget "which block next" in Python: the properties of its presets, against the reference and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("anywidget", reason="the widgets need anywidget: pip install 'apviz[notebook]'")

from apviz.widgets import WhichBlock


def test_the_offer_of_a_block_equals_the_decrease_of_energy_in_the_next_update():
    widget = WhichBlock(step=4)
    found = widget.comparison
    trajectory = found.trajectories["gauss-southwell"]
    k, b = trajectory.span.gram, trajectory.b

    def energy(step: int) -> float:
        w = trajectory.steps[step].weights
        return float(0.5 * w @ k @ w - b @ w)

    solution = np.linalg.solve(k, b)
    choices = found.choices("gauss-southwell", 4)
    assert choices.left == pytest.approx(energy(4) - float(0.5 * solution @ k @ solution - b @ solution), rel=1e-8)
    taken = trajectory.steps[5].block
    assert choices.decrease_per_block[taken] == pytest.approx(energy(4) - energy(5), rel=1e-8)


def test_in_the_first_preset_gauss_southwell_mostly_misses_the_block_that_removes_the_most():
    widget = WhichBlock()
    trajectory = widget.comparison.trajectories["gauss-southwell"]
    k, r, size = trajectory.span.gram, trajectory.b.copy(), widget.block_size
    blocks = [np.arange(start, min(start + size, len(r))) for start in range(0, len(r), size)]
    missed = 0
    for _ in range(24):
        removes = [r[rows] @ np.linalg.solve(k[np.ix_(rows, rows)], r[rows]) for rows in blocks]
        taken = int(np.argmax([np.linalg.norm(r[rows]) for rows in blocks]))
        missed += taken != int(np.argmax(removes))
        rows = blocks[taken]
        r -= k[:, rows] @ np.linalg.solve(k[np.ix_(rows, rows)], r[rows])
    assert missed == len(widget.comparison.suboptimal_updates()) > 12


def test_presets_have_the_described_properties():
    widget = WhichBlock()
    widget.choose("little noise: gauss-southwell comes last")
    assert widget.comparison.ranking(24)[-1] == "gauss-southwell"
    widget.choose("crowded: the largest ‖r_I‖ is not the most energy")
    first = widget.comparison.choices("gauss-southwell", 0)
    assert first.decrease_per_block[first.taken["gauss-southwell"]] < 0.1 * first.decrease_per_block.max()
    widget.choose("one bump: most blocks have nothing to give")
    far = widget.comparison.choices("gauss-southwell", 0)
    assert (far.decrease_per_block < 0.1 * far.left).sum() >= 4
    assert widget.comparison.ranking(24)[0] == "gauss-southwell"
    widget.choose("much noise: the guarantee comes closer")
    near = widget.comparison.choices("gauss-southwell", 0)
    assert near.guaranteed / near.decrease_per_block.max() > far.guaranteed / far.decrease_per_block.max()


def test_presets_reveal_nothing_and_hide_the_names_until_then():
    widget = WhichBlock(reveal=True)
    assert widget.face["hiddenUntil"] == "reveal" and not WhichBlock().reveal
    for preset in widget.presets:
        widget.reveal = True
        widget.choose(preset)
        assert not widget.reveal and (widget.bet_rule, widget.bet_block) == ("no bet", -1)


def test_the_browser_gets_the_systems_of_the_reference():
    widget = WhichBlock()
    for data in ("even", "one bump", "crowded", "photograph"):
        widget.data = data
        given = widget.face["given"]["systems"][data]
        trajectory = widget.comparison.trajectories["cyclic"]
        assert given["x"] == trajectory.span.x[:, 0].tolist() and given["b"] == trajectory.b.tolist()
