"""Which methods."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard.frame import address
from apviz.dashboard.settings.methods import MethodChoice


def test_a_method_that_does_not_exist_is_named_with_those_that_do():
    (problem,) = address.apply("?methods=cg,magic", [MethodChoice()])
    assert "magic" in problem and "pcg" in problem
