"""The registry of data sets, and loading by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path

import torch

from apviz.datasets import uci
from apviz.datasets.bundled import grid_shape, grid_stride, read_china, read_china_profile, read_diabetes
from apviz.datasets.cards import Card, CardError, read_cards
from apviz.datasets.fetching import DatasetUnavailable, fetch_card, locate
from apviz.datasets.preprocessing import (
    Dataset,
    RawTable,
    check_enough,
    check_settings,
    prepare,
    train_size,
    varying_inputs,
)
from apviz.datasets.relief import read_earth
from apviz.datasets.tables.preparing import read_table
from apviz.settings import shown


@dataclass(frozen=True)
class Entry:
    """A registered data set: its card, and the function that reads or makes it.

    Attributes:
        read_file: returns the raw table of a file; None if there is no file.
        make: returns the raw table of a data set that comes with a library; None if a file is needed.
    """

    card: Card
    read_file: Callable[[Path], RawTable] | None = None
    make: Callable[[], RawTable] | None = None

    @property
    def needs_file(self) -> bool:
        """Whether `load` reads a file, which may have to be fetched first."""
        return self.read_file is not None


_FILE_READERS: dict[str, Callable[[Path], RawTable]] = {
    "sgemm": uci.read_sgemm, "airquality": uci.read_airquality, "3droad": uci.read_3droad, "song": uci.read_song,
    "buzz": uci.read_buzz, "houseelectric": uci.read_houseelectric, "gassensors": uci.read_gassensors,
    "earth": read_earth,
}  # fmt: skip
_MAKERS: dict[str, Callable[[], RawTable]] = {
    "china": read_china,
    "china-profile": read_china_profile,
    "diabetes": read_diabetes,
}


def entry_of(card: Card) -> Entry:
    """Return the entry of a card: read by the recipe of its name, or as a plain table.

    Raises:
        CardError: the card has neither recipe nor target column.
    """
    if card.target_column is not None:
        return Entry(card, read_file=partial(read_table, target=card.target_column))
    if card.name in _FILE_READERS:
        return Entry(card, read_file=_FILE_READERS[card.name])
    if card.name in _MAKERS:
        return Entry(card, make=_MAKERS[card.name])
    raise CardError(
        f"{card.name}.toml: target_column is missing; expected a column's name or its position (-1 is the last), "
        f"because no recipe in apviz/datasets/loading.py is called {card.name}"
    )


registry: dict[str, Entry] = {name: entry_of(card) for name, card in read_cards().items()}


def find(name: str) -> Entry:
    """Return the entry with this name, or raise a ValueError with all names, and similar ones."""
    if name in registry:
        return registry[name]
    close = get_close_matches(str(name).lower(), registry, n=3)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    raise ValueError(f"No data set is called {shown(name)}.{hint} There are: {', '.join(registry)}")


def card(name: str) -> Card:
    """Return the card of a data set: size, source, licence, recipe and hyperparameters.

    Raises:
        ValueError: an unknown name; with the list.
    """
    return find(name).card


def cards() -> dict[str, Card]:
    """Return the cards of all data sets by name, the paper's first."""
    return {name: entry.card for name, entry in registry.items()}


def require_here(name: str) -> None:
    """Refuse a data set that needs a download, without reading it.

    Raises:
        DatasetUnavailable: its file is not on this machine; the message says how to get it.
        ValueError: an unknown name.
    """
    entry = find(name)
    if entry.needs_file:
        locate(entry.card)


def is_here(name: str) -> bool:
    """Test whether `load` works without a download."""
    try:
        require_here(name)
    except DatasetUnavailable:
        return False
    return True


def load(name: str, *, seed: int = 0, n: int | None = None, dtype: torch.dtype = torch.float32) -> Dataset:
    """Load a data set with the paper's preprocessing; nothing is downloaded (see `fetch`).

    Constant inputs are dropped, the others scaled to [−1, 1], and the target standardised, using all rows; 80% of the
    rows are for training.

    Args:
        seed: of the shuffle before the split; the same seed gives the same rows.
        n: keep the first n of the shuffled training rows; all test rows stay. Pixels of `china` are first thinned on a
            regular grid, as far as n allows.
        dtype: torch.float32 or torch.float64.

    Returns:
        train_x (n, d), train_y (n,), test_x (m, d), test_y (m,), the names of the inputs and the card.

    Raises:
        DatasetUnavailable: its file is not on this machine; the message says how to get it.
        ValueError: an unknown name, an invalid setting, or a file whose size is not the card's.
    """
    check_settings(seed, n, dtype)
    entry = find(name)
    check_enough(train_size(entry.card.n), n, entry.card.name)
    if name == "china":
        return _load_picture(entry.card, seed=seed, n=n, dtype=dtype)
    table, source = _read(entry)
    return prepare(table, entry.card, seed=seed, n=n, dtype=dtype, source=source)


def load_raw(name: str) -> RawTable:
    """Load all rows of a data set in their own units, without scaling, shuffle or split; nothing is downloaded.

    Raises:
        DatasetUnavailable, ValueError: as in `load`.
    """
    return _read(find(name))[0]


def _read(entry: Entry) -> tuple[RawTable, str]:
    """Return the raw table of an entry, checked against its card, and where it is from."""
    source = entry.card.name
    if entry.read_file is not None:
        path = locate(entry.card)
        source = f"{source} ({path})"
        table = entry.read_file(path)
    else:
        assert entry.make is not None
        table = entry.make()
    check_size(table, entry.card, source)
    return table, source


def check_size(table: RawTable, card: Card, source: str) -> None:
    """Refuse a table whose n or d differs from the card: another file, or another version of it."""
    found = (len(table.target), int(varying_inputs(table).sum()), table.inputs.shape[1])
    expected = (card.n, card.d, card.d_raw)
    if found != expected:
        raise ValueError(
            f"{source}: expected n = {expected[0]:,} and d = {expected[1]} ({expected[2]} inputs "
            f"with constants), got n = {found[0]:,}, d = {found[1]} ({found[2]}). "
            "The file is incomplete or not the version that the recipe was written for"
        )


def _load_picture(card: Card, *, seed: int, n: int | None, dtype: torch.dtype) -> Dataset:
    stride = grid_stride(n)
    table = read_china(stride)
    shape = grid_shape(stride)
    check_size(table, replace(card, n=shape[0] * shape[1]), card.name)
    data = prepare(table, card, seed=seed, n=n, dtype=dtype, source=card.name)
    return replace(data, grid_stride=stride, grid_shape=shape)


def fetch(name: str, *, progress: bool = True, base_url: str | None = None) -> Path:
    """Download a data set's archive into the cache, once, and return its path; repeat an interrupted transfer.

    Args:
        progress: show a progress bar.
        base_url: mirror that holds the archive under the same file name, instead of the official address.

    Raises:
        DownloadError: no archive to fetch, an interrupted transfer, or a wrong checksum; with advice.
        ValueError: an unknown name.
    """
    return fetch_card(find(name).card, progress=progress, base_url=base_url)
