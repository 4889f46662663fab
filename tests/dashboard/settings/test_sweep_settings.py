"""What is swept: batch sizes, or noises."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.comparison import choose_block_sizes
from apviz.dashboard import address
from apviz.dashboard.settings.methods import BatchSizeSweep, NoiseSweep


@pytest.mark.parametrize(
    ("n", "sizes"), [(1712, [27, 54, 110, 210, 430, 860]), (50_000, [780, 1600, 3100, 6200, 12000, 25000])]
)
def test_without_a_choice_b_goes_by_halves_of_n(n, sizes):
    assert choose_block_sizes(n) == sizes
    assert [solver.block_size for solver in BatchSizeSweep().solvers(n)] == sizes


def test_a_tiny_system_has_fewer_sizes_and_none_of_zero():
    assert choose_block_sizes(4) == [1, 2]


def test_every_b_that_was_asked_for_has_one_solver_with_the_settings():
    sweep = BatchSizeSweep(sizes=[50, 20, 50], rule="cyclic", partition="kd-tree", overlap=0.5, tol=0.1, max_epochs=7)
    solvers = sweep.solvers(200)
    assert [solver.block_size for solver in solvers] == [20, 50]
    assert {(s.rule, s.partition, s.overlap, s.tol, s.max_epochs) for s in solvers} == {
        ("cyclic", "kd-tree", 0.5, 0.1, 7)
    }


def test_no_chosen_b_survives_the_address_too():
    after = [BatchSizeSweep(sizes=[3])]
    assert address.apply(address.to_query([BatchSizeSweep()]), after) == []
    assert after[0].sizes == []


def test_noises_go_by_decades_from_the_largest_and_the_chosen_one_is_among_them():
    assert NoiseSweep().factors() == [100, 10, 1, 0.1, 0.01]
    assert NoiseSweep(below=1, above=0.5, per_decade=2).factors() == [3.16, 1, 0.316, 0.1]
    assert NoiseSweep(below=0, above=0).factors() == [1]
