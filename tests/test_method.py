"""The method as data, and what its label's short forms stand for."""

from __future__ import annotations

import re

import pytest

import apviz
from apviz.method import abbreviations
from apviz.solvers import Skeletons, Subspace

SOLVERS = [
    apviz.AlternatingProjection(block_size=50),
    apviz.AlternatingProjection(
        block_size=50, partition="principal-axis-tree", overlap=1.0, step=Subspace(length=15), columns=Skeletons(rank=8)
    ),
    apviz.ConjugateGradient(),
    apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=100)),
    apviz.ConjugateGradient(preconditioner=apviz.TwoLevelSchwarz(block_size=100, overlap=0.5, coarse_rank=30)),
    apviz.Cholesky(),
    apviz.Automatic(),
]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.label)
def test_every_short_form_in_a_label_is_explained_and_none_that_is_not_there(solver):
    label = solver.label
    in_label = set(re.findall(r"\b(AP|PCG|pa-tree|[bqrs](?==))", label)) | ({"+"} & set(label))
    assert set(solver.method.abbreviations) == in_label


def test_the_short_forms_of_several_methods_are_one_line_each_said_once():
    line = abbreviations([solver.method for solver in SOLVERS])
    forms = [part.partition(": ")[0] for part in line.split(" · ")]
    assert sorted(forms) == sorted(["AP", "PCG", "pa-tree", "+", "b", "q", "r", "s"])
    assert "r: rank of the preconditioner, or vectors of the coarse space" in line
    assert abbreviations([apviz.Cholesky().method, apviz.ConjugateGradient().method]) == ""
