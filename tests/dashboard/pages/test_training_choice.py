"""The choice of trainings for a chart."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard import address
from apviz.dashboard.pages.sweeps.noise import TrainingChoice
from apviz.dashboard.store.trainings import Trainings


@pytest.fixture(autouse=True)
def without_published_trainings(tmp_path, monkeypatch):
    """Hide the published runs, which are not available everywhere."""
    monkeypatch.setenv("APVIZ_DATA", str(tmp_path / "nothing"))


def test_a_missing_training_in_the_address_is_rejected(folder):
    choice = TrainingChoice()
    choice.offer(Trainings(folder))
    (problem,) = address.apply("?trainings=gone", [choice])
    assert "use fit" in problem and choice.trainings == []


def test_a_deleted_training_is_dropped_from_the_choice(folder):
    choice, here = TrainingChoice(), Trainings(folder)
    choice.offer(here)
    choice.choose_first()
    assert choice.trainings == ["fit"]
    (folder / "fit.zarr").rename(folder / "other")
    choice.offer(here)
    assert choice.trainings == []
