"""Chart cards: the height of their figure, and projector mode."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("panel")

from apviz import plots
from apviz.dashboard.components.chart_card import ChartCard
from apviz.dashboard.store.runs_folder import RunsFolder
from apviz.tracing import Trace


def layout(card) -> dict:
    return json.loads(card.chart.base)["layout"]


@pytest.fixture
def runs(recorded_runs):
    return RunsFolder(recorded_runs)


def card(draw, **options):
    return ChartCard("Card", "Text.", lambda traces, theme: draw(traces, theme=theme), **options)


def test_the_card_sets_the_height_of_the_axes_unless_a_figure_has_many_panels(runs):
    one = card(plots.residuals, axes=380)
    one.show([runs.open("ap")], "light")
    assert "height" not in layout(one) and one.chart.axes == 380
    many = card(plots.block_timeline)
    many.show([runs.open("ap")] * 3, "light")
    assert layout(many)["height"] > 500


def test_on_a_projector_text_is_larger_and_nothing_overlaps(runs):
    shown = {}
    for lecture in (False, True):
        each = card(plots.block_timeline, lecture=lecture)
        each.show([runs.open("ap")], "light")
        shown[lecture] = layout(each)
    for part in (
        lambda chart: chart["template"]["layout"]["font"]["size"],
        lambda chart: chart["margin"]["t"],
        lambda chart: chart["coloraxis"]["colorbar"]["ypad"],
        lambda chart: chart["coloraxis"]["colorbar"]["title"]["font"]["size"],
    ):
        assert part(shown[True]) == pytest.approx(1.4 * part(shown[False]))


def test_words_name_runs_of_one_method_apart_by_their_seed(runs):
    """Two runs were once named alike, with different numbers."""
    several = [runs.open("ap"), Trace(runs.open("ap").tree.copy(deep=True))]
    several[1].attrs["seed"] = 4
    shown = card(plots.residuals)
    shown.show(several, "light")
    first, second = shown.words().removeprefix("Card. ").split("; ")
    assert "seed 0: residual" in first and "seed 4: residual" in second
