"""The widget "CG against alternating projection" in Python, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("anywidget", reason="the widgets need anywidget: pip install 'apviz[notebook]'")

from apviz.widgets import CGAgainstProjection


def test_the_residual_of_cg_first_rises_by_the_moments_of_lambda():
    cg, _ = CGAgainstProjection().paths
    k, b = cg.trajectory.span.gram, cg.trajectory.b
    values, vectors = np.linalg.eigh(k)
    share = (vectors.T @ b) ** 2 / (b @ b)
    growth = share @ values**2 / (share @ values) ** 2 - 1
    assert growth > 1
    norms = cg.trajectory.residual_norms()
    assert norms[1] / norms[0] == pytest.approx(np.sqrt(growth), rel=1e-9)
    # while the error in the K-norm never rises
    gaps = [step.weights - np.linalg.solve(k, b) for step in cg.trajectory.steps]
    errors = np.array([gap @ k @ gap for gap in gaps])
    assert (np.diff(errors) <= 1e-9).all() and errors[1] < errors[0]


@pytest.mark.parametrize("preset", CGAgainstProjection.presets)
def test_in_every_preset_the_error_of_both_never_rises(preset):
    widget = CGAgainstProjection()
    widget.choose(preset)
    for path in widget.paths:
        errors = path.trajectory.errors()
        assert (np.diff(errors) <= 1e-9 * errors[0]).all()
    assert widget.work == widget.presets[preset].get("work", 1)


def test_one_block_of_all_rows_converges_in_one_update():
    widget = CGAgainstProjection()
    widget.choose("one block: a Cholesky solve")
    _, ap = widget.paths
    # the factor costs 1.0 work, and one update 1.0
    np.testing.assert_allclose(ap.work[:2], [1, 2])
    assert ap.error[1].sum() < 1e-20 * ap.error[0].sum()


def test_projection_leads_at_little_noise_and_cg_at_much():
    widget, at = CGAgainstProjection(), {}
    for preset in ("hardly any noise", "CG's residual rises first"):
        widget.choose(preset)
        cg, ap = widget.paths
        # at the work of the preset; by 24, the error of CG at little noise depends on the rounding of the processor
        at[preset] = [path.error[path.at(12)].sum() / path.error[0].sum() for path in (cg, ap)]
    assert at["hardly any noise"][1] < at["hardly any noise"][0]
    assert at["CG's residual rises first"][0] < at["CG's residual rises first"][1]


@pytest.mark.parametrize("extreme", [{"points": 8, "block_size": 80}, {"points": 80, "block_size": 2, "overlap": 1.0}])
@pytest.mark.parametrize("noise", [1e-4, 1.0])
def test_controls_work_at_the_ends_of_their_ranges(extreme, noise):
    widget = CGAgainstProjection(**extreme, noise=noise, lengthscale=1.0, plane="largest and smallest λ")
    for path in widget.paths:
        assert np.isfinite(path.coordinates).all()
