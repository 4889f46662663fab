"""The settings of methods: section 5.1 and the appendix of the paper, scaled to a smaller n."""

from __future__ import annotations

from dataclasses import replace

import pytest

import apviz
from apviz.experiments import Options
from apviz.experiments.measuring import steps_of
from apviz.experiments.sources import block_size, lanczos_rank, load, prediction_solver, training_solver
from apviz.partitions import PrincipalAxisTree


@pytest.fixture(scope="module")
def reduced():
    return load("houseelectric", "china", Options(n=300, dataset="china"))


@pytest.fixture(scope="module")
def whole(reduced):
    """Return a data set whose rows count as the full size."""
    return replace(reduced, full_n=reduced.n)


def test_a_step_of_training_is_solved_to_one_in_eleven_to_a_thousand_epochs(whole):
    cg, ap = training_solver("CG", whole), training_solver("AP", whole)
    assert (cg.tol, cg.min_epochs, cg.max_epochs) == (1.0, 11, 1000)
    assert (ap.tol, ap.min_epochs, ap.max_epochs) == (1.0, 11, 1000)
    assert cg.preconditioner == apviz.PivotedCholesky(rank=300)
    assert (ap.block_size, ap.rule, ap.partition, ap.step.length) == (
        1000,
        "gauss-southwell",
        "sequential",
        0,
    )


def test_a_predictive_mean_is_solved_to_a_hundredth_in_at_most_4000(whole):
    cg, ap = prediction_solver("CG", whole), prediction_solver("AP", whole)
    assert (cg.tol, cg.min_epochs, cg.max_epochs) == (0.01, 0, 4000)
    assert (ap.tol, ap.min_epochs, ap.max_epochs) == (0.01, 0, 4000)
    assert cg.preconditioner == apviz.PivotedCholesky(rank=500)


def test_at_a_reduced_n_solves_end_sooner_and_blocks_stay_large_enough_for_their_overhead(reduced):
    assert prediction_solver("AP", reduced).max_epochs == prediction_solver("CG", reduced).max_epochs == 1000
    assert block_size(reduced) == 50
    assert lanczos_rank(reduced) == 50


def test_variances_have_rank_1000_and_500_on_gas_sensors(whole):
    assert lanczos_rank(whole) == 1000
    assert lanczos_rank(replace(whole, stands_in_for="gassensors")) == 500


def test_our_method_overlaps_and_solves_to_a_hundredth_in_training_too(reduced):
    for solver in (training_solver("AP overlapping", reduced), prediction_solver("AP overlapping", reduced)):
        assert solver.tol == 0.01 and solver.partition == PrincipalAxisTree(overlap="auto")


@pytest.mark.parametrize(("name", "steps"), [("sgemm", 50), ("buzz", 50), ("houseelectric", 100), ("gassensors", 100)])
def test_adam_takes_50_steps_and_100_on_the_two_largest(name, steps):
    assert steps_of(name) == steps
