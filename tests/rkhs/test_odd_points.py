"""Missing points and invalid numbers in the geometry of the lessons are rejected by name."""

from __future__ import annotations

import numpy as np
import pytest

import apviz
from apviz import rkhs

SPAN = rkhs.Span(np.linspace(0, 1, 6), apviz.RBF(lengthscale=0.5), 0.1)
ODD = ["auto", [1.0], ["a"], [], [9], [-1], None, np.array(0.5)]


@pytest.mark.parametrize("odd", ODD)
def test_missing_points_of_a_block_are_rejected_by_name(odd):
    for name, call in {
        "first": lambda: rkhs.principal_angles(SPAN, odd, [2, 3]),
        "second": lambda: rkhs.contraction(SPAN, [0, 1], odd),
        "blocks": lambda: rkhs.block_spectrum(SPAN, [odd]),
        "sets": lambda: rkhs.trajectory_on(SPAN, np.ones(6), [odd]),
        "block": lambda: SPAN.project(np.ones(6), odd),
    }.items():
        with pytest.raises(ValueError, match=f"{name} must be points by their numbers from 0 to 5"):
            call()


def test_invalid_blocks_sizes_and_steps_are_rejected_by_name():
    for name, call in {
        "blocks": lambda: rkhs.block_spectrum(SPAN, []),
        "sets": lambda: rkhs.trajectory_on(SPAN, np.ones(6), []),
        "sizes": lambda: rkhs.lambda_max_by_size(SPAN, np.array(0.5), "sequential"),
        "block_size": lambda: rkhs.blocks_of(SPAN, np.array([0.5]), "sequential"),
        "epochs": lambda: rkhs.compare_with_bound(SPAN, np.ones(6), block_size=2, partition="sequential", epochs=0.5),
        "steps": lambda: rkhs.compare_rules(SPAN, np.ones(6), block_size=2, steps=-0.0),
        "noise": lambda: rkhs.Span([0.0, 1.0], apviz.RBF(), np.array([])),
        "seed": lambda: rkhs.trajectory(SPAN, np.ones(6), seed=-1),
        "partition": lambda: rkhs.blocks_of(SPAN, 2, np.array([])),
        "rule": lambda: rkhs.trajectory(SPAN, np.ones(6), rule=np.array(["cyclic", "random"])),
    }.items():
        with pytest.raises(ValueError, match=f"{name} must be"):
            call()


@pytest.mark.parametrize(
    "odd", ["auto", ["a"], None, [1.0, np.nan], [[1.0], [1.0, 2.0]], 1j, np.ma.masked_less([1.0, 2.0], 1.5), object()]
)
def test_invalid_arrays_are_rejected_by_name(odd):
    for name, call in {
        "x": lambda: rkhs.Span(odd, apviz.RBF(), 0.1),
        "b": lambda: rkhs.trajectory(SPAN, odd),
        "z": lambda: SPAN.values(np.ones(6), odd),
    }.items():
        with pytest.raises(ValueError, match=f"{name} must be an array of"):
            call()


def test_unknown_kernels_are_rejected_by_name():
    for odd in ("rbf", None, apviz.RBF() + apviz.Linear(), lambda x, z: np.ones(3)):
        with pytest.raises(ValueError, match="kernel must be a stationary kernel such as apviz.Matern52"):
            rkhs.Span(np.linspace(0, 1, 6), odd, 0.1)
    with pytest.raises(ValueError, match="name must be one of matern12, .*, got 'matern'"):
        rkhs.StationaryKernel("matern")
    with pytest.raises(ValueError, match="lengthscale must be one number or 1, one per column"):
        rkhs.Span([0.0, 1.0], apviz.RBF(lengthscale=(0.5, 0.1)), 0.1)
