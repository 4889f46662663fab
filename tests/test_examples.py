"""The examples in the docstrings of the public names run, and show what they say."""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import apviz
from apviz import analysis, gp, plots, rkhs

# rooms whose every class and function has an example
COMPLETE = (apviz, plots)
# what the examples of a room take for granted
IMPORTED = {rkhs: {"apviz": apviz, "np": np}}


def examples_of(room, name):
    """Those of a class or function itself, then those of its methods."""
    finder, globs = doctest.DocTestFinder(exclude_empty=False), IMPORTED.get(room, {})
    return finder.find(getattr(room, name), f"{room.__name__}.{name}", globs=globs)


def names(rooms):
    of_rooms = [(room, name) for room in rooms for name in room.__all__]
    return [
        pytest.param(room, name, id=f"{room.__name__}.{name}")
        for room, name in of_rooms
        if inspect.isclass(getattr(room, name)) or inspect.isfunction(getattr(room, name))
    ]


# a name that two rooms have, once
OBJECTS = {getattr(*each.values): each.values for each in names((rkhs, gp, analysis, *COMPLETE))}
EXAMPLES = {test.name: test for place in OBJECTS.values() for test in examples_of(*place) if test.examples}


@pytest.mark.parametrize(("room", "name"), names(COMPLETE))
def test_every_public_name_has_an_example_that_uses_it(room, name):
    sources = [example.source for example in examples_of(room, name)[0].examples]
    # what others return is not made by its name
    used = f"{name}(" if inspect.isfunction(getattr(room, name)) else ""
    assert any(used in source for source in sources), f"{name} has no Examples, or they do not use it"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    report = []
    with np.printoptions(precision=8):  # which a library that another test imports may have changed
        result = doctest.DocTestRunner(verbose=False).run(EXAMPLES[name], out=report.append, clear_globs=False)
    assert not result.failed, "".join(report)
