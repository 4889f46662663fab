"""Which methods."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard import address
from apviz.dashboard.settings.methods import MethodChoice


def test_a_method_that_does_not_exist_is_named_with_those_that_do():
    (problem,) = address.apply("?methods=cg,magic", [MethodChoice()])
    assert "magic" in problem and "pcg" in problem


@pytest.mark.parametrize(
    ("empty", "method"), [("rules", "ap"), ("partitions", "ap"), ("block_sizes", "ap"), ("ranks", "rpcg")]
)
def test_a_method_that_is_ticked_is_not_left_out_without_a_word(empty, method):
    methods = MethodChoice(methods=["cg", method])
    setattr(methods, empty, [])
    with pytest.raises(ValueError, match=f"is ticked, and no {empty[:-1].replace('_', ' ')} is given"):
        methods.solvers(0)
    methods.methods = ["cg"]
    assert len(methods.solvers(0)) == 1
