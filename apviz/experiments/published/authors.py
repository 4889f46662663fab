"""What the authors published of their own trainings, step by step, as far as these tables can show it."""

from __future__ import annotations

from typing import Final

from apviz import datasets
from apviz.datasets import DatasetUnavailable, PublishedRun
from apviz.experiments.published.paper import AP, CG

#: data sets with published steps (Matérn-5/2), and the seed they were published for
SEEDS: Final = {"sgemm": 0, "airquality": 0, "3droad": 0, "houseelectric": 3}
#: our names of methods, and theirs
METHODS: Final = {AP: "altproj", CG: "cg"}


def training_of(name: str, method: str) -> tuple[PublishedRun, ...]:
    """The published steps of a training, or none where there are none, or their file is not here."""
    if name not in SEEDS or method not in METHODS:
        return ()
    try:
        return datasets.published_training(name, method=METHODS[method], seed=SEEDS[name])
    except DatasetUnavailable:
        return ()


def full_rows(name: str) -> int:
    """The training rows that published runs had: all."""
    return datasets.train_size(datasets.card(name).n)
