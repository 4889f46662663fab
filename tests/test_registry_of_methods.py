"""The registry of methods is complete, has unique names, and is all that a new method needs besides its own file."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

import apviz
from apviz import comparison
from apviz.methods import METHODS, SETTINGS, MethodEntry, choices_in_words, entry_of
from apviz.partitions import with_overlap
from apviz.preconditioners import PRECONDITIONERS
from apviz.solvers import SOLVERS
from apviz.solvers.baselines.iterates import IterativeSolver


def test_every_solver_and_preconditioner_has_an_entry_and_every_entry_belongs_to_one():
    assert {entry.family for entry in METHODS.values()} == set(SOLVERS)
    assert {entry.preconditioner for entry in METHODS.values()} - {None} == set(PRECONDITIONERS)


def test_names_descriptions_and_colours_are_unique():
    for what in ("name", "description"):
        found = [getattr(entry, what) for entry in METHODS.values()]
        assert len(set(found)) == len(found)
    colours = [entry.colours for entry in METHODS.values() if entry.colours]
    assert len(set(colours)) == len(colours)


def test_every_swept_or_fixed_setting_belongs_to_the_solver_or_its_preconditioner():
    for entry in METHODS.values():
        parts = [SOLVERS[entry.family], *([PRECONDITIONERS[entry.preconditioner]] if entry.preconditioner else [])]
        known = set().union(*(part.__dataclass_fields__ for part in parts))
        assert {*entry.sweeps, *with_overlap(entry.fixed)} <= known
        assert set(entry.sweeps) <= set(SETTINGS)


@pytest.mark.parametrize("key", METHODS)
def test_a_requested_method_is_the_one_created(key):
    made = comparison.choose_solvers([key], rules=["cyclic"], block_sizes=[30, 60], ranks=[7, 8], tol=0.5, seed=3)
    entry = METHODS[key]
    assert len(made) == (2 if entry.sweeps else 1)
    for solver in made:
        method = solver.method
        assert (method.family, method.preconditioner) == (entry.family, entry.preconditioner)
        assert entry_of(method.family, method.preconditioner).family == entry.family
        assert solver.tol == 0.5
        settings = with_overlap({"seed": 3, **entry.fixed}) if entry.fixed else {}
        fixed = SOLVERS.make(entry.family, **{name: value for name, value in settings.items() if name != "seed"})
        assert all(getattr(solver, name) == getattr(fixed, name) for name in settings if name != "seed")


def test_choices_of_a_solver_are_shown_without_the_code_of_settings_and_values():
    choices = {
        "method": "AlternatingProjection: n = 9: large",
        "block_size": "523: 5 √n",
        "precision.factors": "recursion: they fit",
        "skeletons": "of rank 8",
    }
    assert choices_in_words(choices) == [
        "method: alternating projection (n = 9: large)",
        "block size: 523 (5 √n)",
        "dtype of the factors: as the recursion (they fit)",
        "more skeletons: of rank 8",
    ]


def test_a_new_method_needs_only_a_solver_and_an_entry(monkeypatch):
    monkeypatch.setattr(SOLVERS, "_kinds", dict(SOLVERS._kinds))

    @SOLVERS.register("still")
    @dataclass(frozen=True, kw_only=True)
    class Still(IterativeSolver):
        """A solver that does nothing."""

        name: ClassVar[str] = "Still"

        def epochs(self, prepared, state):
            yield from ()

    entry = MethodEntry(name="Stays", description="Does nothing.", family="still")
    monkeypatch.setitem(METHODS, "still", entry)
    (solver,) = comparison.choose_solvers(["still"])
    assert solver == Still(max_epochs=100) and solver.method.name == "Stays"
    x = [[0.0], [1.0]]
    system = apviz.KernelSystem(x, [1.0, 0.0], apviz.RBF(), noise=0.1, device="cpu")
    assert str(apviz.solvers.attempt(system, solver).stop_reason) == "stagnated"
