"""Test odd arguments of every public function: a correct run, or one sentence that names the argument or its value.

A case is its seed: a valid call, of which one or two arguments are replaced by typical wrong values of people
and programs (`odd.py`): NaN, infinities, nothing, one row, other dtypes and shapes, texts, None, views, tensors with a
graph. Accepted values are used; if a solve then claims convergence, its residual is recomputed.
"""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import apviz
from apviz import datasets
from apviz.factors import NotPositiveDefinite
from tests.trust import calls
from tests.trust.bounds import Endless, TooLarge, bounded, fault_of
from tests.trust.odd import FLAGS, NUMBERS, TEXTS, arrays_like
from tests.trust.recipes import Recipe, recipes
from tests.trust.verdicts import Verdict

#: documented errors of public functions
KINDS: tuple[type[BaseException], ...] = (
    ValueError,
    TypeError,
    NotPositiveDefinite,
    apviz.NotConverged,
    apviz.TrainingError,
    OSError,
    datasets.DatasetUnavailable,
)
#: number of characters of a value that a message shows
_SHOWN = 12


@dataclass
class Case:
    """A call with odd arguments; their kinds for people."""

    recipe: Recipe
    odd: dict[str, Any]


def case(seed: int) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)

    def one_of(values: Any) -> Any:
        return values[rng.integers(len(values))]

    recipe = one_of(recipes())
    names = rng.permutation(sorted(recipe.arguments))[: 1 + int(rng.random() < 0.3)]
    odd = {}
    for name in map(str, names):
        kind = recipe.arguments[name]
        if kind in ("x", "y") and rng.random() < 0.85:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                odd[name] = one_of(arrays_like(calls.good_x() if kind == "x" else calls.good_y()))()
        elif kind == "flag":
            odd[name] = one_of(FLAGS)
        else:
            odd[name] = one_of(TEXTS if (kind == "text") != (rng.random() < 0.2) else NUMBERS)
    return Case(recipe, odd)


# --- the verdict ------------------------------------------------------------------------------------------------------


@contextmanager
def _elsewhere() -> Any:
    """Work in a temporary folder: some odd texts are paths."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="apviz-trust-") as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def judge(seed: int) -> Verdict:
    """Make the call of a seed."""
    made = case(seed)
    said = f"{made.recipe.name} with {_shown(made.odd)}"
    try:
        with _elsewhere(), warnings.catch_warnings(), bounded(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            made.recipe.use(**made.odd)
    except Endless as error:
        return Verdict("endless", f"{said}: {error}")
    except TooLarge as error:
        return Verdict("error", f"{said}: took {error}")
    except AssertionError as wrong:
        return Verdict("false", f"{said}: {wrong}")
    except Exception as error:
        of_sklearn = made.recipe.is_of_sklearn
        fault = fault_of(error, (*KINDS, RuntimeError) if of_sklearn else KINDS, may_be_long=of_sklearn) or _nameless(
            error, made
        )
        return Verdict("error" if fault else "refused", f"{said}: {fault or error}")
    return Verdict("done", said)


def _nameless(error: Exception, made: Case) -> str:
    """Return the fault of a sentence that names neither an argument nor its value; empty if it names one."""
    said = str(error)
    words = [
        *made.odd,
        *(name.replace("_", " ") for name in made.odd),
        *(name.rstrip("_") for name in made.odd),
        *made.recipe.also,
    ]
    if any(re.search(rf"(?<![A-Za-z_]){re.escape(word)}", said) for word in words):
        return ""
    values = [
        text
        for value in made.odd.values()
        for text in (str(value)[:_SHOWN], repr(value)[:_SHOWN], type(value).__name__)
    ]
    if any(text and text in said for text in values):
        return ""
    return f"names neither {' nor '.join(made.odd)}: {type(error).__name__}: {said}"


def _shown(odd: Mapping[str, Any]) -> str:
    def text(value: Any) -> str:
        if isinstance(value, torch.Tensor) and value.ndim:
            return f"tensor{list(value.shape)} {value.dtype}"
        if isinstance(value, np.ndarray) and value.ndim:
            return f"array{list(value.shape)} {value.dtype}"
        return re.sub(r" at 0x\w+", "", f"{type(value).__name__} {repr(value)[:60]}".replace("\n", " "))

    return ", ".join(f"{name} = {text(value)}" for name, value in odd.items())


def described(seed: int) -> dict[str, str]:
    """Describe a case in words."""
    made = case(seed)
    return {"call": made.recipe.name, "with": _shown(made.odd)}
