"""Points that are not there, and numbers that are none, in the lessons' geometry: refused by their names."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import apviz
from apviz import rkhs

SPAN = rkhs.Span(np.linspace(0, 1, 6), apviz.RBF(lengthscale=0.5), 0.1)
ODD = ["auto", [1.0], ["a"], [], [9], [-1], None, torch.tensor(0.5)]


@pytest.mark.parametrize("odd", ODD)
def test_points_of_a_block_that_are_not_there_are_named(odd):
    for name, call in {
        "first": lambda: rkhs.principal_angles(SPAN, odd, [2, 3]),
        "second": lambda: rkhs.contraction(SPAN, [0, 1], odd),
        "blocks": lambda: rkhs.block_spectrum(SPAN, [odd]),
        "sets": lambda: rkhs.trajectory_on(SPAN, np.ones(6), [odd]),
        "block": lambda: SPAN.project(np.ones(6), odd),
    }.items():
        with pytest.raises(ValueError, match=f"{name} must be points by their numbers from 0 to 5"):
            call()


def test_no_blocks_no_sizes_and_no_steps_are_named():
    for name, call in {
        "blocks": lambda: rkhs.block_spectrum(SPAN, []),
        "sets": lambda: rkhs.trajectory_on(SPAN, np.ones(6), []),
        "sizes": lambda: rkhs.lambda_max_by_size(SPAN, np.array(0.5), "sequential"),
        "block_size": lambda: rkhs.blocks_of(SPAN, np.array([0.5]), "sequential"),
        "epochs": lambda: rkhs.compare_with_bound(SPAN, np.ones(6), block_size=2, partition="sequential", epochs=0.5),
        "steps": lambda: rkhs.compare_rules(SPAN, np.ones(6), block_size=2, steps=-0.0),
        "noise": lambda: rkhs.Span([0.0, 1.0], apviz.RBF(), np.array([])),
    }.items():
        with pytest.raises(ValueError, match=f"{name} must be"):
            call()


def test_tensors_with_a_graph_are_taken():
    x = torch.linspace(0, 1, 6, dtype=torch.float64).requires_grad_()
    np.testing.assert_allclose(rkhs.Span(x, apviz.RBF(lengthscale=0.5), 0.1).gram, SPAN.gram)
    assert rkhs.trajectory(SPAN, x, steps=2).b.shape == (6,)
