"""The page Noise without a browser: its settings and its job."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard.pages.sweeps.noise import Noise
from apviz.dashboard.settings.systems import BY_HAND
from tests.dashboard.visiting import drawn, visitor


@pytest.fixture
def shared(tmp_path):
    return visitor(tmp_path / "runs", n=200, source=BY_HAND, rhs=1)


def test_the_button_sweeps_around_the_chosen_noise_and_the_sweep_can_be_reopened(shared):
    page = Noise(shared)
    page.main()
    page.settings()
    page.methods.param.update(methods=["ap", "cg"], rules=["cyclic"], block_sizes=[50], tol=0.1)
    page.sweep.param.update(below=1, above=0)
    page.run()
    page.job.join(60)
    page.tick()
    noises = [trace.attrs["noise"] for trace in page.traces.values()]
    assert noises == pytest.approx([0.01, 0.01, 0.001, 0.001])
    again = Noise(shared)
    again.open()
    assert sorted(again.choice.runs) == sorted(page.job.done)
    assert len(drawn(again)._cards["sweep"].drawn) == 4


def test_without_a_method_nothing_runs(shared):
    page = Noise(shared)
    page.methods.methods = []
    page.run()
    assert page.job is None and "no method is chosen" in page._bar._text.object


def test_before_a_sweep_the_page_says_what_it_will_draw(shared):
    page = Noise(shared)
    page.open()
    text = drawn(page)._cards["sweep"].text
    assert text.is_empty and "Every run becomes a point" in text.empty
