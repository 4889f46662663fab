"""The plan of a training: the settings of the page Training, and those of a recorded training."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("panel")

import apviz
from apviz.dashboard import address
from apviz.dashboard.settings.training import TrainingPlan, recorded
from apviz.dashboard.store.trainings import Trainings
from apviz.gp.training.settings import PAPER_SOLVER
from tests.dashboard.small_trainings import SETTINGS, SPEC


def test_the_solvers_of_the_paper_have_its_settings():
    plan = TrainingPlan(solver="ap", block_size=1000, rank=500)
    assert plan.choose_solver() == PAPER_SOLVER
    plan.solver = "cg"
    assert plan.choose_solver() == apviz.ConjugateGradient(
        preconditioner=apviz.PivotedCholesky(rank=500), tol=1.0, max_epochs=1000, min_epochs=11
    )
    plan.solver = "overlap"
    assert plan.choose_solver().method.overlap == "auto" and plan.choose_solver().tol == 0.01
    plan.solver = "auto"
    assert plan.choose_solver() == apviz.Automatic(tol=0.01, max_epochs=1000)


def test_less_work_equals_that_of_the_library():
    plan = TrainingPlan(steps=70, less_work=True)
    settings = plan.settings(SPEC)
    assert settings.stages == ((0.25, 40), (0.5, 20)) and settings.max_epochs == 1 and settings.steps == 70
    # the solver of the paper takes at least 11 epochs
    plan.solver = "ap"
    assert plan.settings(SPEC).max_epochs == 11


@pytest.mark.parametrize("steps", range(1, 12))
def test_with_less_work_some_steps_always_use_all_rows(steps):
    plan = TrainingPlan(steps=steps, less_work=True)
    assert plan.settings(SPEC).steps == steps > plan.settings(SPEC).steps_in_stages


@pytest.mark.parametrize("query", ["steps=0", "steps=1001", "solver=magic", "probes=65", "step_size=-1", "ard=maybe"])
def test_a_bad_value_in_the_address_is_reported_and_changes_nothing(query):
    plan = TrainingPlan()
    (problem,) = address.apply(query, [plan])
    assert query in problem and plan.settings(SPEC) == TrainingPlan().settings(SPEC)


def test_a_training_uses_the_seed_and_kernel_of_the_system():
    settings = TrainingPlan().settings(replace(SPEC, seed=5, kernel="rbf"))
    assert (settings.seed, settings.kernel) == (5, "rbf")


def test_data_and_settings_of_a_recorded_training_are_read_from_its_trace(trained):
    trace = Trainings(trained).open(Trainings(trained).names()[0])
    assert recorded(trace, lambda name: None) == (SPEC, SETTINGS)


def test_a_training_on_missing_data_is_reported(trained):
    trace = Trainings(trained).open(Trainings(trained).names()[0])
    trace.attrs["dataset"] = "mine"
    with pytest.raises(
        ValueError, match="the data of this training, mine, are not on this server; upload the file again"
    ):
        recorded(trace, lambda name: None)
