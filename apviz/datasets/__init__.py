"""Data sets by name, your own tables, and the published runs of the paper's authors."""

from apviz.datasets.cards import Card, CardError
from apviz.datasets.fetching import DatasetUnavailable, DownloadError
from apviz.datasets.loading import Entry, card, cards, fetch, is_here, load, registry, require_here
from apviz.datasets.preprocessing import Dataset, train_size
from apviz.datasets.published import (
    PublishedRun,
    published_hyperparameters,
    published_training,
)
from apviz.datasets.sphere import points_on_sphere
from apviz.datasets.tables.preparing import load_table
from apviz.datasets.tables.table import Table, inspect_table
from apviz.hyperparameters import Hyperparameters

__all__ = [
    "Card", "CardError", "Dataset", "DatasetUnavailable", "DownloadError", "Entry", "Hyperparameters", "PublishedRun",
    "Table", "card", "cards", "fetch", "inspect_table", "is_here", "load", "load_table", "points_on_sphere",
    "published_hyperparameters", "published_training", "registry", "require_here", "train_size",
]  # fmt: skip
