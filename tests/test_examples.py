"""The examples in the docstrings of public names run and give the output that they show."""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import apviz
from apviz import analysis, gp, plots, rkhs

# rooms in which every class and function has an example
COMPLETE = (apviz, plots)
# names that the examples of a room do not import
IMPORTED = {rkhs: {"apviz": apviz, "np": np}}


def examples_of(room, name):
    """Return the examples of a class or function, then those of its methods."""
    finder, globs = doctest.DocTestFinder(exclude_empty=False), IMPORTED.get(room, {})
    return finder.find(getattr(room, name), f"{room.__name__}.{name}", globs=globs)


def names(rooms):
    of_rooms = [(room, name) for room in rooms for name in room.__all__]
    return [
        pytest.param(room, name, id=f"{room.__name__}.{name}")
        for room, name in of_rooms
        if inspect.isclass(getattr(room, name)) or inspect.isfunction(getattr(room, name))
    ]


# each object once, even if two rooms export it
OBJECTS = {getattr(*each.values): each.values for each in names((rkhs, gp, analysis, *COMPLETE))}
EXAMPLES = {test.name: test for place in OBJECTS.values() for test in examples_of(*place) if test.examples}


@pytest.mark.parametrize(("room", "name"), names(COMPLETE))
def test_every_public_name_has_an_example_that_uses_it(room, name):
    sources = [example.source for example in examples_of(room, name)[0].examples]
    # objects that other functions return are not created by name
    used = f"{name}(" if inspect.isfunction(getattr(room, name)) else ""
    assert any(used in source for source in sources), f"{name} has no Examples, or they do not use it"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_the_output_that_it_shows(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some examples write files
    report = []
    with np.printoptions(precision=8):  # an imported library may have changed the options
        result = doctest.DocTestRunner(verbose=False).run(EXAMPLES[name], out=report.append, clear_globs=False)
    assert not result.failed, "".join(report)
