"""The photograph without a browser: what the controls do, against the solver's own record."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ipywidgets", reason="the widgets need ipywidgets: pip install 'apviz[notebook]'")

from apviz.widgets import Photograph
from apviz.widgets.photograph import PICTURES

OTHER = {
    "step": 3, "overlap": 1.0, "partition": "sequential", "block_size": 150, "rule": "cyclic", "tol": 1e-1,
    "pixels": 1080,
}  # fmt: skip


FIRST = next(iter(Photograph.presets))


class Small(Photograph):
    """With fewer pixels."""

    presets = Photograph.presets | {FIRST: Photograph.presets[FIRST] | {"pixels": 704}}


@pytest.fixture(scope="module")
def widget():
    return Small()


@pytest.fixture(scope="module")
def full():
    return Photograph()


def seen(widget):
    return [figure.to_json() for figure in widget.figures]


def widget_pixels(widget, step):
    """The residual in the picture, as whole multiples of its unit."""
    widget.controls["step"].widget.value = step
    return np.asarray(widget.figures[0].data[0].z, dtype=float)


def test_every_control_moves_a_figure(widget):
    assert set(OTHER) == set(widget.controls)
    for name, value in OTHER.items():
        widget.reset()
        before = seen(widget)
        widget.controls[name].widget.value = value
        assert seen(widget) != before, name


def test_the_picture_before_any_update_is_the_photograph_and_the_last_is_within_the_tolerance(widget):
    widget.reset()
    b = widget.photos[0.0].trace["rows"]["target"].values
    assert np.corrcoef(widget_pixels(widget, 0), b)[0, 1] > 0.999999
    norms = [np.linalg.norm(widget_pixels(widget, step)) for step in (0, PICTURES - 1)]
    assert norms[1] < 0.011 * norms[0]
    # and the mean has turned from nothing into the photograph
    assert np.corrcoef(widget.figures[0].data[-1].z, b)[0, 1] > 0.95


def test_the_residual_is_zero_where_the_block_and_its_margin_are(widget):
    widget.reset()
    widget.controls["overlap"].widget.value = 1.0
    photo = widget.photos[1.0]
    pairs, blocks = photo.trace["rows"]["membership"].values, photo.trace["update"]["block"].values
    for step in (1, 4, 7):
        rows = pairs[pairs[:, 1] == blocks[step - 1], 0]
        assert len(rows) == 200
        # in units of a rounding
        assert np.abs(widget_pixels(widget, step)[rows]).max() <= 2
    widget.reset()


def test_solves_are_kept_and_the_status_says_what_was_done(widget):
    widget.reset()
    first = widget.photos
    assert set(first) == {0.0, 0.5, 1.0} and "solved in" in widget.status.value
    widget.controls["overlap"].widget.value = 0.5
    widget.controls["step"].widget.value = 5
    assert widget.photos is first
    widget.controls["block_size"].widget.value = 200
    assert widget.photos is not first
    widget.controls["block_size"].widget.value = 100
    assert widget.photos is first


def test_the_browser_is_told_before_the_solve_starts(widget, monkeypatch):
    widget.reset()
    said = []
    module = __import__("sys").modules[Photograph.__module__]
    solve = module.solve_photograph

    def note(*args, **settings):
        said.append(widget.status.value)
        return solve(*args, **settings)

    monkeypatch.setattr(module, "solve_photograph", note)
    widget.controls["block_size"].widget.value = 350
    assert len(said) == 3 and all("solving…" in each and "n = 704" in each for each in said)
    assert "solving" not in widget.status.value
    widget.reset()


def test_from_outlines_to_dots_and_back_leaves_nothing_behind(widget):
    widget.reset()
    outline = widget.figures[0].data[1].to_plotly_json()
    widget.controls["partition"].widget.value = "sequential"
    dots = widget.figures[0].data[2]
    assert dots.mode == "markers" and dots.fill == "none" and dots.marker.size > 0
    widget.reset()
    again = widget.figures[0].data[1]
    assert again.mode == outline["mode"] and again.fill == outline["fill"] and again.marker.size == 0


@pytest.mark.parametrize("preset", Photograph.presets)
def test_every_preset_converges_and_says_of_how_many_pixels(full, preset):
    full.choose(preset)
    assert all(photo.trace.converged for photo in full.photos.values())
    assert f"n = {full.value('pixels'):,}" in full.figures[0].layout.title.text
