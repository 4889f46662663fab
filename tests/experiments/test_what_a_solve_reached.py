"""The row of a solve, against the observations of a hook."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz.experiments import Options
from apviz.experiments.measuring import ending, machines, solved, when

LEVELS = (1.0, 0.1, 0.01)


class Watch(apviz.Hook):
    def __init__(self):
        self.residuals, self.works = [], []

    def on_epoch(self, epoch):
        self.residuals.append(epoch.residual)
        self.works.append(epoch.work)


def measured(tmp_path, solver, levels=LEVELS):
    x = torch.rand(120, 2, generator=torch.Generator().manual_seed(0))
    system = apviz.KernelSystem(x, torch.sin(9 * x[:, 0]), apviz.Matern32(lengthscale=0.3), noise=0.05, device="cpu")
    watch = Watch()
    return solved(system, solver, tmp_path / "a.zarr", Options(hooks=[watch]), levels), watch


@pytest.mark.parametrize("solver", [apviz.AlternatingProjection(block_size=30), apviz.ConjugateGradient()])
def test_a_level_is_reached_at_the_end_of_the_first_epoch_below_it(tmp_path, solver):
    row, watch = measured(tmp_path, solver)
    for level in LEVELS:
        first = next(number for number, value in enumerate(watch.residuals) if number and value < level)
        place = row["reached"][f"{level:g}"]
        assert place["epochs"] == first and place["work"] == pytest.approx(watch.works[first])
        assert row["setup_seconds"] < place["seconds"] <= row["seconds"]
    assert row["outcome"] == "converged" and row["epochs"] == len(watch.residuals) - 1
    assert row["epoch_seconds"] * row["epochs"] <= row["seconds"]


def test_an_unreached_level_is_none_and_the_table_states_the_final_residual(tmp_path):
    row, watch = measured(tmp_path, apviz.ConjugateGradient(tol=1e-6, max_epochs=4), (1e-5,))
    assert row["reached"] == {"1e-05": None}
    assert when([row], 1e-5, "epochs") == "> 4"
    assert when([row], 1e-5, "work") == f"> {watch.works[-1]:.1f}"
    assert when([row], 1e-5, "seconds").startswith("> ")
    assert ending([row]) == "Not converged: epoch limit"


def place(epochs):
    return {"epochs": epochs, "work": 2.0 * epochs, "seconds": 60.0 * epochs}


def test_over_seeds_a_table_has_mean_and_spread_of_the_solves_that_reached_the_level():
    rows = [{"reached": {"0.01": found}, "epochs": 500} for found in (place(10), place(14), None)]
    assert when(rows[:2], 0.01, "epochs") == f"12 ± {np.std([10, 14], ddof=1):.0f}"
    assert when(rows, 0.01, "epochs") == "12 ± 3 (2 of 3)"
    assert when(rows[:2], 0.01, "seconds") == "12.0 min"
    assert when(rows[2:], 0.01, "epochs") == "> 500"


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        (["converged", "converged"], "Converged"),
        (["diverged"], "Not converged: diverged"),
        (["converged", "max_epochs"], "Converged; Not converged: epoch limit"),
    ],
)
def test_unconverged_solves_are_marked(outcomes, words):
    assert ending([{"outcome": outcome} for outcome in outcomes]) == words


def test_rows_of_two_machines_name_both():
    assert machines([{"machine": "a GPU"}, {"machine": "a CPU"}, {"machine": "a GPU"}]) == "a GPU; a CPU"
