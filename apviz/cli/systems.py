"""From options to a system: the data of a command, its hyperparameters, and how K is built."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from apviz import comparison, datasets
from apviz.cli.parsing import date_orders, decimal_marks, refuse_choices, target_column, words
from apviz.cli.terminal import say_notes
from apviz.hyperparameters import Hyperparameters
from apviz.system import KernelSystem

DTYPES = {"float32": torch.float32, "float64": torch.float64}
Scales = tuple[str | None, list[float] | None, float | None, float | None]
#: What `--duplicates` takes: the system keeps or merges rows, a table drops some.
DUPLICATES = (*comparison.DUPLICATES, "drop")


def dtype_named(name: str) -> torch.dtype:
    """Return the dtype of a name.

    Raises:
        ValueError: another name.
    """
    if name not in DTYPES:
        raise ValueError(f"--dtype must be float32 or float64, got {name!r}")
    return DTYPES[name]


def load_data(
    name: str,
    target: str | None,
    n: int | None,
    seed: int,
    dtype: torch.dtype,
    duplicates: str,
    *,
    inputs: str | None,
    ids: str,
    missing: str,
    decimal: list[str] | None,
    dates: list[str] | None,
) -> datasets.Dataset:
    """Load a registered data set, or a table of the user's, prepared by the options of its columns.

    Raises:
        ValueError: names the option, or what is wrong with the file.
        OSError: a file that cannot be read.
    """
    if duplicates not in DUPLICATES:
        raise ValueError(f"--duplicates must be one of {', '.join(DUPLICATES)}, got {duplicates!r}")
    choices: dict[str, Any] = {
        "inputs": None if inputs is None else words(inputs), "ids": ids, "missing": missing,
        "decimal": decimal_marks(decimal), "dates": date_orders(dates),
    }  # fmt: skip
    refuse_choices(name, choices)
    if name in datasets.registry:
        if duplicates == "drop":
            raise ValueError(f"--duplicates drop is for your own tables; {name} has keep and merge")
        return datasets.load(name, seed=seed, n=n, dtype=dtype)
    if Path(name).suffix or Path(name).exists():
        column = target_column(name, target, choices["decimal"])
        with warnings.catch_warnings():
            # its notes are shown later, one per line
            warnings.simplefilter("ignore")
            kept: Any = "drop" if duplicates == "drop" else "keep"
            return datasets.load_table(name, column, seed=seed, n=n, dtype=dtype, duplicates=kept, **choices)
    return datasets.load(name, seed=seed)  # raises, with the known names


def make_system(
    data: datasets.Dataset, scales: Scales, duplicates: str, **settings: Any
) -> tuple[Hyperparameters, KernelSystem, Callable[[], KernelSystem]]:
    """Return the hyperparameters of the data, the system, and a function that builds it again on a worker.

    Args:
        scales: the kernel's name, lengthscales, outputscale and noise, where they were given.
        duplicates: the value of --duplicates.
        settings: of `comparison.build_system`.

    Raises:
        ValueError: names the option.
    """
    chosen = comparison.choose_hyperparameters(data, *scales)
    merged: Any = "merge" if duplicates == "merge" else "keep"
    build = partial(comparison.build_system, data, chosen, duplicates=merged, **settings)
    return chosen, build(), build


def say_data_notes(data: datasets.Dataset, system: KernelSystem) -> None:
    """Print what was done to the data, and what happens to rows with equal inputs."""
    say_notes(filter(None, (*data.notes, comparison.duplicates_in_words(data, system))))
