"""The trainings in the folder of runs and its subfolders."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("panel")

import apviz
from apviz.dashboard.store.trainings import Trainings
from tests.dashboard.small_trainings import SETTINGS, SOLVER
from tests.dashboard.store.on_disk import rewrite


def test_trainings_including_those_of_experiments_are_listed_newest_first(trained, tmp_path):
    x, y = apviz.datasets.load("china", n=60).train_x, apviz.datasets.load("china", n=60).train_y
    settings = replace(SETTINGS, steps=1)
    apviz.Training(x, y, settings, path=tmp_path / "first.zarr").run()
    # trainings are distinguished by the second of their start
    rewrite(tmp_path / "first.zarr", lambda attributes: attributes.update(created="1999-01-01T00:00:00+00:00"))
    apviz.Training(x, y, settings, path=tmp_path / "experiments" / "training-n60" / "cell.zarr").run()
    system = apviz.KernelSystem(x, y, apviz.Matern52(lengthscale=0.2), noise=0.1)
    apviz.solve(system, SOLVER, hooks=[apviz.Recorder(tmp_path / "solve.zarr")])
    trainings = Trainings(tmp_path)
    assert trainings.names() == ["experiments/training-n60/cell", "first"]
    assert trainings.open("first").attrs["n"] == 60
    with pytest.raises(ValueError, match="solve is a single solve, not a training"):
        trainings.open("solve")


@pytest.mark.parametrize("name", ["nothing", "../runs/x", "/etc/passwd", ".."])
def test_a_name_that_is_not_in_the_folder_opens_nothing(trained, name):
    with pytest.raises(FileNotFoundError, match="there is no training"):
        Trainings(trained).open(name)
