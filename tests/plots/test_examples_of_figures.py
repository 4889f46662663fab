"""The example in the docstring of every figure runs, and shows what it says."""

from __future__ import annotations

import doctest

import pytest

from apviz import plots
from apviz.plots import rkhs


def example_of(room, name):
    return doctest.DocTestFinder(recurse=False).find(getattr(room, name), name, globs={})[0]


FIGURES = {f"{room.__name__}.{name}": example_of(room, name) for room in (plots, rkhs) for name in room.__all__}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_an_example_that_draws_it(name):
    drawn = [example.source for example in FIGURES[name].examples]
    call = f"{name.rpartition('.')[2]}("
    assert any(call in source for source in drawn), f"{name} has no Examples, or they do not draw it"


@pytest.mark.parametrize("name", FIGURES)
def test_an_example_gives_what_it_says(name):
    report = []
    result = doctest.DocTestRunner(verbose=False).run(FIGURES[name], out=report.append, clear_globs=False)
    assert not result.failed, "".join(report)
