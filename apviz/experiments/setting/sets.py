"""The data sets of a table that has all of the paper's: those that are here."""

from __future__ import annotations

from apviz import datasets
from apviz.experiments.base import Options
from apviz.experiments.published import paper
from apviz.experiments.setting.data import Source, hyperparameters_of, load, pairs


def names(options: Options, *, trained: bool = False) -> list[str]:
    """The data set of `options`, else the paper's that are here; `trained`: with hyperparameters on their card.

    Raises:
        ValueError: an unknown data set, or one without hyperparameters.
        DatasetUnavailable: none is here, with what to do.
    """
    if options.dataset is not None:
        chosen = [options.dataset]
    else:
        chosen = [name for name in paper.DATASETS if datasets.is_here(name)] or [paper.DATASETS[0]]
        chosen = [name for name in chosen if not trained or datasets.card(name).hyperparameters] or chosen[:1]
    for name in chosen:
        pairs([(name, name)], options)
        if trained:
            hyperparameters_of(name)
    return chosen


def load_named(name: str, options: Options, seed: int) -> Source:
    """One of `names`; a set that the paper does not have takes the place, and the settings, of the paper's first."""
    return load(name if name in paper.DATASETS else paper.DATASETS[0], name, options, seed)
