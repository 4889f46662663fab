"""CG against alternating projection without a browser: what the controls do, against numbers of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ipywidgets", reason="the widgets need ipywidgets: pip install 'apviz[notebook]'")

from apviz.widgets import CGAgainstProjection

#: another value for every control
OTHER = {
    "work": 7, "plane": "the two with most residual", "data": "a curve with noise", "points": 30, "block_size": 5,
    "rule": "cyclic", "overlap": 0.5, "lengthscale": 0.3, "noise": 0.2,
}  # fmt: skip


@pytest.fixture(scope="module")
def widget():
    return CGAgainstProjection()


def seen(widget):
    return [figure.to_json() for figure in widget.figures]


def test_every_control_moves_a_figure(widget):
    assert set(OTHER) == set(widget.controls)
    for name, value in OTHER.items():
        widget.reset()
        before = seen(widget)
        widget.controls[name].widget.value = value
        assert seen(widget) != before, name
    widget.reset()


def test_the_residual_of_cg_rises_first_as_the_moments_of_lambda_say(widget):
    widget.reset()
    cg, _ = widget.paths
    k, b = cg.trajectory.span.gram, cg.trajectory.b
    values, vectors = np.linalg.eigh(k)
    share = (vectors.T @ b) ** 2 / (b @ b)
    growth = share @ values**2 / (share @ values) ** 2 - 1
    assert growth > 1
    assert f"times {np.sqrt(growth):.3g}: up" in widget.figures[2].layout.title.text
    norms = cg.trajectory.residual_norms()
    assert norms[1] / norms[0] == pytest.approx(np.sqrt(growth), rel=1e-9)
    # while the error in the K-norm never rises
    gaps = [step.weights - np.linalg.solve(k, b) for step in cg.trajectory.steps]
    errors = np.array([gap @ k @ gap for gap in gaps])
    assert (np.diff(errors) <= 1e-9).all() and errors[1] < errors[0]


def test_the_point_of_cg_is_inside_the_circle_and_outside_the_ellipse(widget):
    widget.reset()
    circle, ellipse, *rest = widget.figures[0].data
    cg = next(each for each in rest if each.name == "CG")
    x, y = cg.x[-1], cg.y[-1]
    assert np.hypot(x, y) < np.hypot(circle.x[0], circle.y[0])
    # half axes of the ellipse
    assert (x / np.max(ellipse.x)) ** 2 + (y / np.max(ellipse.y)) ** 2 > 1


@pytest.mark.parametrize("preset", CGAgainstProjection.presets)
def test_in_every_preset_the_error_of_both_never_rises(widget, preset):
    widget.choose(preset)
    for path in widget.paths:
        errors = path.trajectory.errors()
        assert (np.diff(errors) <= 1e-9 * errors[0]).all()
    assert widget.value("work") == widget.presets[preset].get("work", 1)


def test_one_block_is_done_after_one_update(widget):
    widget.choose("one block: a Cholesky solve")
    _, ap = widget.paths
    # a factor for 1.0 work, one update for 1.0
    np.testing.assert_allclose(ap.work[:2], [1, 2])
    assert ap.error[1].sum() < 1e-20 * ap.error[0].sum()
    widget.reset()


def test_with_hardly_any_noise_projection_is_ahead_and_with_much_cg_comes_first(widget):
    at = {}
    for preset in ("hardly any noise", "CG's residual rises first"):
        widget.choose(preset)
        cg, ap = widget.paths
        # at what the preset shows; by 24 CG's error of hardly any noise is what the processor's rounding makes it
        at[preset] = [path.error[path.at(12)].sum() / path.error[0].sum() for path in (cg, ap)]
    assert at["hardly any noise"][1] < at["hardly any noise"][0]
    assert at["CG's residual rises first"][0] < at["CG's residual rises first"][1]
    widget.reset()


def test_moving_the_work_solves_nothing_again(widget):
    widget.reset()
    before = widget.paths
    widget.controls["work"].widget.value = 9
    assert all(a is b for a, b in zip(before, widget.paths, strict=True))
    widget.controls["rule"].widget.value = "random"
    assert widget.paths[0] is before[0] and widget.paths[1] is not before[1]
    widget.reset()


@pytest.mark.parametrize("extreme", [{"points": 8, "block_size": 80}, {"points": 80, "block_size": 2, "overlap": 1.0}])
@pytest.mark.parametrize("noise", [1e-4, 1.0])
def test_the_ends_of_the_controls_work(extreme, noise):
    widget = CGAgainstProjection(**extreme, noise=noise, lengthscale=1.0, plane="largest and smallest λ")
    for work in (0, 24):
        widget.controls["work"].widget.value = work
    for path in widget.paths:
        assert np.isfinite(path.coordinates).all()
