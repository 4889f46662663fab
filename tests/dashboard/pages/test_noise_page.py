"""The page Noise without a browser: its settings, its job, and trainings in the same folder."""

from __future__ import annotations

import warnings

import pytest
import torch

pytest.importorskip("panel")

import apviz
from apviz.dashboard.pages.sweeps.noise import Noise
from apviz.dashboard.settings.systems import BY_HAND
from tests.dashboard.visiting import drawn, visitor


@pytest.fixture
def shared(tmp_path, monkeypatch):
    # the published runs are not available everywhere
    monkeypatch.setenv("APVIZ_DATA", str(tmp_path / "nothing"))
    return visitor(tmp_path / "runs", n=200, source=BY_HAND, rhs=1)


@pytest.fixture
def training(shared):
    """Return the name of a training of two steps in the folder."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(60, 2, generator=generator)
    settings = apviz.TrainingSettings(
        solver=apviz.AlternatingProjection(block_size=20, tol=1.0, min_epochs=2), steps=2, probes=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        apviz.Training(x, x[:, 0], settings, operator="dense", path=shared.runs.path / "mine.zarr").run()
    return "mine"


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


def test_the_newest_training_of_the_folder_is_shown_with_the_sweep(shared, training):
    page = Noise(shared)
    page.open()
    assert page.trainings.trainings == [training]
    card = drawn(page)._cards["training"]
    assert not card.text.is_empty
    assert card.drawn[0]["step"].sizes["step"] == 2
    assert "2 Adam steps" in card.words()


def test_without_a_training_the_page_says_how_to_make_one(shared):
    page = Noise(shared)
    page.open()
    cards = drawn(page)._cards
    assert page.trainings.trainings == [] and cards["training"].drawn == []
    assert cards["training"].text.is_empty and "start one on the page Training" in cards["training"].text.empty
    assert cards["sweep"].text.is_empty and "every run becomes a point" in cards["sweep"].text.empty
