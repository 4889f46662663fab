"""Fitting a model to a table: which inputs it has, which rows train its hyperparameters, and which rows check it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pandas as pd
import torch

from apviz.datasets.preprocessing import RawTable, check_enough, shuffle, varying_inputs
from apviz.datasets.sphere import is_on_sphere
from apviz.datasets.tables.encoding import Encoding
from apviz.gp.training.settings import Step, TrainingHook, TrainingSettings
from apviz.hyperparameters import Hyperparameters
from apviz.solvers import Epoch, Hook

if TYPE_CHECKING:
    from apviz.gp.estimator.gaussian_process import GaussianProcess

#: Rows that choose the hyperparameters: 10,000 take a minute or two on a core, all others only enter the solve.
TRAINING_ROWS: Final = 10_000
#: Numbers in the solves that predict rows from all others, which limit how many rows are predicted.
CHECKED_NUMBERS, FEWEST_CHECKED, MOST_CHECKED = 2_000_000, 200, 1_000


class FitProgress(TrainingHook):
    """A hook that says what a fit does, and how far it is, after every epoch."""

    def __init__(self, say: Callable[[str], None], doing: str) -> None:
        self._say, self.doing = say, doing

    def on_epoch(self, epoch: Epoch) -> None:
        self._say(f"{self.doing}: residual {epoch.residual:.2g} after {epoch.number} epochs")

    def on_step(self, step: Step, settings: TrainingSettings) -> None:
        self.doing = f"training: {step.number} of at most {settings.steps} steps done"


def some_rows(raw: RawTable, n: int, seed: int, source: str) -> RawTable:
    """Return the table with n of its rows, at random."""
    check_enough(len(raw.target), n, source)
    rows = shuffle(len(raw.target), seed)[:n].numpy()
    return replace(raw, inputs=raw.inputs[rows], target=raw.target[rows])


def with_varying_inputs(raw: RawTable, source: str) -> RawTable:
    """Return the table without inputs that do not vary, and with an encoding for each of the others."""
    varies = varying_inputs(raw)
    varies[: 3 * is_on_sphere(raw.encodings)] = True
    names = tuple(name for name, each in zip(raw.feature_names, varies, strict=True) if each)
    encodings = raw.encodings or tuple(Encoding(column=name) for name in raw.feature_names)
    encodings = tuple(each for each in encodings if set(each.names) <= set(names))
    if sorted(name for each in encodings for name in each.names) != sorted(names) or len({*names}) < len(names):
        raise ValueError(f"{source}: two columns would make inputs with the same name; rename one of them")
    return replace(raw, inputs=raw.inputs[:, varies], feature_names=names, encodings=encodings)


def fit_table(
    model: GaussianProcess,
    raw: RawTable,
    given: Hyperparameters | None,
    seed: int,
    progress: FitProgress,
    hooks: Sequence[Hook] = (),
    *,
    training_rows: int = TRAINING_ROWS,
) -> GaussianProcess:
    """Train the hyperparameters on some rows unless they are given in the units of the table, then fit all rows."""
    from apviz.gp.estimator.fitting import check_settings, rows_of, scaling_of, train

    check_settings(model)
    scaling, n = scaling_of(model, raw.inputs, raw.target), len(raw.target)
    hooks = [progress, *hooks]
    if given is not None:
        hyperparameters = scaling.to_scaled(given)
    else:
        rows = shuffle(n, seed)[:training_rows].sort().values.numpy()
        some, targets = scaling.inputs(raw.inputs[rows]), scaling.targets(raw.target[rows])
        distinct, _ = rows_of(torch.from_numpy(some), torch.from_numpy(targets), None)
        hyperparameters, _ = train(model, distinct, scaling, hooks, n)
    progress.doing = "solving for the mean"
    x, y = pd.DataFrame(raw.inputs, columns=list(raw.feature_names)), pd.Series(raw.target, name=raw.target_name)
    gp: GaussianProcess = model.set_params(hyperparameters=hyperparameters).fit(x, y, hooks=hooks)
    gp.columns_ = raw.encodings
    return gp


def checked_rows(n: int, asked: int | None = None) -> int:
    """Return the number of rows, of n, to predict from all others."""
    affordable = min(max(CHECKED_NUMBERS // n, FEWEST_CHECKED), MOST_CHECKED)
    return min(n, affordable if asked is None else asked)
