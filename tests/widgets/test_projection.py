"""The projection without a browser: what its controls do, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ipywidgets", reason="the widgets need ipywidgets: pip install 'apviz[notebook]'")

from apviz.widgets import Projection
from apviz.widgets.projection import BLOCKS


def shown(widget: Projection) -> list[str]:
    return [figure.to_json() for figure in widget.figures]


OTHER = {
    "step": 2, "picture": "solution", "x1": 0.05, "x2": 0.4, "x3": 0.95, "lengthscale": 1.0, "noise": 0.1,
    "blocks": "{1} {2} {3}", "rule": "cyclic", "b1": -1.0, "b2": -1.0, "b3": -1.0, "kernel": "rbf",
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER)
def test_every_control_moves_something_that_is_seen(name):
    # two points of the paper's figure are in one block, and the first step takes them whatever the rule
    widget = Projection(step=3 if name == "rule" else 1, blocks="{1} {2} {3}" if name == "rule" else "{1, 2} {3}")
    before = shown(widget)
    widget.controls[name].widget.value = OTHER[name]
    assert shown(widget) != before
    assert set(widget.controls) == {*OTHER, "speed"}


@pytest.mark.parametrize("preset", Projection.presets)
def test_right_angles_are_right_and_the_norm_in_h_never_rises(preset):
    widget = Projection()
    widget.choose(preset)
    trajectory = widget.trajectory
    x = np.array([widget.value(name) for name in ("x1", "x2", "x3")])
    q = np.sqrt(5) * np.abs(x[:, None] - x) / widget.value("lengthscale")
    gram = (1 + q + q**2 / 3) * np.exp(-q) + widget.value("noise") * np.eye(3)
    b = np.array([widget.value(name) for name in ("b1", "b2", "b3")])
    goal = np.linalg.solve(gram, b)
    size = np.sqrt(goal @ gram @ goal)
    before = size
    for step in trajectory.steps[1:]:
        rest = goal - step.weights
        norm = np.sqrt(max(rest @ gram @ rest, 0.0))
        assert norm <= before + 1e-12 * size
        before = norm
        for point in BLOCKS[widget.value("blocks")][step.block]:
            assert abs((gram @ rest)[point]) <= 1e-10 * size * np.sqrt(gram[point, point])


def test_the_preset_that_promises_a_rise_of_the_euclidean_residual_has_one_at_its_first_step():
    widget = Projection()
    widget.choose("the Euclidean residual rises")
    norms = [np.linalg.norm(step.residual) for step in widget.trajectory.steps]
    assert norms[1] > norms[0]


def test_the_picture_stays_as_it_was_turned_because_camera_and_uirevision_stay():
    widget = Projection()
    scenes = [widget.figures[0].layout.scene]
    for preset in widget.presets:
        widget.choose(preset)
        scenes.append(widget.figures[0].layout.scene)
    assert len({scene.uirevision for scene in scenes}) == 1 and scenes[0].uirevision
    assert all(scene.camera == scenes[0].camera for scene in scenes)


def test_points_in_one_place_and_data_of_zeros_are_no_error():
    widget = Projection(x1=0.5, x2=0.5, x3=0.5)
    for name in ("b1", "b2", "b3"):
        widget.controls[name].widget.value = 0.0
    assert not any(step.weights.any() for step in widget.trajectory.steps)
