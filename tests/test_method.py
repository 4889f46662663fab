"""The name of a method, its details in words, and the names of several methods in one table or legend."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import apviz
from apviz import comparison
from apviz.method import Method, distinct_names
from apviz.methods import METHODS
from apviz.partitions import PrincipalAxisTree
from apviz.solvers import Skeletons, Subspace


def projection(**settings):
    return apviz.AlternatingProjection(block_size=250, **settings)


def cg(preconditioner):
    return apviz.ConjugateGradient(preconditioner=preconditioner)


HALF = PrincipalAxisTree(overlap=0.5)
NEIGHBOURS = {"partition": HALF, "step": Subspace(length=24)}
#: solver, name, details
CALLED = [
    (projection(), "Alternating projection (greedy, b = 250)", "consecutive rows"),
    (projection(rule="cyclic"), "Alternating projection (cyclic, b = 250)", "consecutive rows"),
    (projection(rule="random"), "Alternating projection (random, b = 250)", "consecutive rows"),
    (projection(partition="kd-tree"), "Alternating projection (greedy, b = 250)", "k-d tree blocks"),
    (projection(**NEIGHBOURS), "Overlapping projections", "250 rows a block, 50% overlap, 24 past directions"),
    (
        projection(rule="random", **NEIGHBOURS, columns=Skeletons(rank=8)), "Overlapping projections (random)",
        "250 rows a block, 50% overlap, 24 past directions, skeletons of rank 8",
    ),
    (cg(None), "CG", ""),
    (cg(apviz.PivotedCholesky(rank=100)), "CG + pivoted Cholesky (rank 100)", ""),
    (cg(apviz.RandomlyPivotedCholesky(rank=176)), "CG + randomly pivoted Cholesky (rank 176)", ""),
    (
        cg(apviz.TwoLevelSchwarz(block_size=523, partition=HALF, coarse_rank=176)), "CG + two-level Schwarz",
        "523 rows a block, 50% overlap, coarse space of rank 176",
    ),
    (apviz.Cholesky(), "Cholesky", ""),
    (apviz.Automatic(), "Automatic (recommended)", ""),
]  # fmt: skip


@pytest.mark.parametrize(("solver", "name", "details"), CALLED, ids=lambda each: str(each)[:30])
def test_a_method_has_a_spoken_name_and_the_rest_as_details(solver, name, details):
    assert (solver.method.name, solver.method.details) == (name, details)


def test_the_source_of_a_solve_is_part_of_the_name():
    published = dataclasses.replace(projection().method, block_size=None, source="published")
    assert published.name == "Alternating projection (greedy), as published"
    assert Method(family="conjugate-gradient", source="gpytorch").name == "GPyTorch CG"


@pytest.mark.parametrize("key", METHODS)
def test_names_and_details_contain_no_code(key):
    for solver in comparison.choose_solvers([key]):
        for text in (solver.method.name, solver.method.details):
            assert not re.search(r"\w=|\bpa-|\bauto\b|[\[\]{}_']", text), text


def test_methods_with_the_same_name_state_only_their_differences():
    small, large = (
        apviz.AlternatingProjection(block_size=b, **NEIGHBOURS).method for b in (100, 523)
    )  # fmt: skip
    shorter = dataclasses.replace(small, history=8)
    assert distinct_names([small, Method(family="cholesky")]) == ["Overlapping projections", "Cholesky"]
    assert distinct_names([small, large, small]) == [
        "Overlapping projections (100 rows a block)", "Overlapping projections (523 rows a block)",
        "Overlapping projections (100 rows a block)",
    ]  # fmt: skip
    assert distinct_names([small, shorter]) == [
        "Overlapping projections (24 past directions)", "Overlapping projections (8 past directions)",
    ]  # fmt: skip
    trees = [projection(partition=each).method for each in ("sequential", "kd-tree")]
    assert distinct_names(trees) == [
        "Alternating projection (greedy, b = 250, consecutive rows)",
        "Alternating projection (greedy, b = 250, k-d tree blocks)",
    ]


sizes = st.one_of(st.none(), st.integers(1, 3), st.just("auto"))
methods = st.builds(
    Method, family=st.sampled_from(["alternating-projection", "conjugate-gradient", "own"]),
    rule=st.sampled_from([None, "gauss-southwell", "random"]), block_size=sizes, history=sizes, skeleton_rank=sizes,
    partition=st.sampled_from([None, "sequential", "kd-tree", "principal-axis-tree"]),
    overlap=st.sampled_from([None, 0.5, 1.0, "auto"]), coarse_rank=sizes, rank=st.sampled_from([None, 5, 6]),
    preconditioner=st.sampled_from([None, "nystrom", "two-level-schwarz", "jacobi"]),
    coarse=st.sampled_from([None, "galerkin"]), variant=st.sampled_from([None, "power 1", "power 2, damping 3"]),
    source=st.sampled_from([None, "gpytorch", "published"]),
)  # fmt: skip


@given(st.lists(methods, min_size=2, max_size=8))
def test_two_methods_that_differ_never_have_the_same_name_in_one_table(several):
    names = distinct_names(several)
    for one, its in zip(several, names, strict=True):
        for other, that in zip(several, names, strict=True):
            assert (its == that) == (one == other)


def test_settings_of_an_untrusted_trace_that_are_not_numbers_are_shown_as_text():
    odd = Method.from_plain({"family": "alternating-projection", "block_size": "<b>", "overlap": "x", "history": "y"})
    assert odd.name == "Overlapping projections" and "<b>" in odd.details
