"""The choice of methods, sweeps, and solves recorded with pictures."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.comparison import choose_block_sizes
from apviz.dashboard import address
from apviz.dashboard.settings.methods import BlockSizeSweep, MethodChoice, NoiseSweep
from apviz.dashboard.settings.recording import MAX_RECORDED_VALUES, RecordChoice
from apviz.partitions import KDTree
from apviz.preconditioners import RandomlyPivotedCholesky
from apviz.solvers import ConjugateGradient


def test_an_error_about_an_unknown_method_lists_the_known_ones():
    (problem,) = address.apply("?methods=cg,magic", [MethodChoice()])
    assert "magic" in problem and "pcg" in problem


@pytest.mark.parametrize(
    ("empty", "method"), [("rules", "ap"), ("partitions", "ap"), ("block_sizes", "ap"), ("ranks", "rpcg")]
)
def test_a_ticked_method_is_never_left_out_silently(empty, method):
    methods = MethodChoice(methods=["cg", method])
    setattr(methods, empty, [])
    with pytest.raises(ValueError, match=f"is ticked, and no {empty[:-1].replace('_', ' ')} is given"):
        methods.solvers(0)
    methods.methods = ["cg"]
    assert len(methods.solvers(0)) == 1


# --- what is swept ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "sizes"), [(1712, [27, 54, 110, 210, 430, 860]), (50_000, [780, 1600, 3100, 6200, 12000, 25000])]
)
def test_without_a_choice_b_is_n_halved_repeatedly(n, sizes):
    assert choose_block_sizes(n) == sizes
    assert [solver.block_size for solver in BlockSizeSweep().solvers(n)] == sizes


def test_a_tiny_system_has_fewer_sizes_and_none_of_zero():
    assert choose_block_sizes(4) == [1, 2]


def test_every_requested_b_has_one_solver_with_the_settings():
    sweep = BlockSizeSweep(sizes=[50, 20, 50], rule="cyclic", partition="kd-tree", overlap=0.5, tol=0.1, max_epochs=7)
    solvers = sweep.solvers(200)
    assert [solver.block_size for solver in solvers] == [20, 50]
    assert {(s.rule, s.partition, s.tol, s.max_epochs) for s in solvers} == {("cyclic", KDTree(overlap=0.5), 0.1, 7)}


def test_noises_are_decades_from_the_largest_including_the_chosen_one():
    assert NoiseSweep().factors() == [100, 10, 1, 0.1, 0.01]
    assert NoiseSweep(below=1, above=0.5, per_decade=2).factors() == [3.16, 1, 0.316, 0.1]
    assert NoiseSweep(below=0, above=0).factors() == [1]


# --- what is recorded -------------------------------------------------------------------------------------------------


def test_the_solver_has_the_settings_and_its_block_size_is_ignored_by_conjugate_gradients():
    solver = RecordChoice(rule="random", partition="kd-tree", block_size=9, overlap=1.0, tol=0.1).solver(50, 3)
    assert solver.method.name == "Overlapping projections (random)" and solver.tol == 0.1
    assert RecordChoice(method="cg").solver(50, 0).method.name == "CG"


def test_more_pictures_than_a_run_may_record_are_rejected_with_the_limit():
    most = MAX_RECORDED_VALUES // 50_000 - 1
    assert RecordChoice(updates=most).solver(50_000, 0)
    with pytest.raises(ValueError, match=rf"record at most {most} updates, or take fewer rows"):
        RecordChoice(updates=most + 1).solver(50_000, 0)


@pytest.mark.parametrize(("ranks", "expected"), [(None, [104]), ([20, 50], [20, 50, 104])])
def test_ticking_an_advised_method_makes_it_part_of_the_next_run_with_its_rank(ranks, expected):
    methods = MethodChoice()
    methods.ranks = ranks or methods.ranks
    advised = ConjugateGradient(preconditioner=RandomlyPivotedCholesky(rank=104)).method
    assert methods.tick(advised) and methods.ranks == expected
    assert advised.name in [solver.method.name for solver in methods.solvers(0)]
    assert not methods.tick(advised)
