"""Location of data files on this machine, and their download on request."""

from __future__ import annotations

import os
import zipfile
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pooch
import requests
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from apviz.datasets.cards import Card

CHUNK = 1 << 16
#: Transfers before giving up, and the longest silence of a server, in seconds.
ATTEMPTS, TIMEOUT = 3, 30.0


class DatasetUnavailable(FileNotFoundError):
    """The data file is neither in the APVIZ_DATA folder nor in the cache."""


class DownloadError(OSError):
    """A failed download; the message says why."""


def data_folder() -> Path | None:
    """Return the folder in the environment variable APVIZ_DATA, which is searched first; None if it is unset."""
    value = os.environ.get("APVIZ_DATA")
    return Path(value).expanduser() if value else None


def cache_folder() -> Path:
    """Return the download folder: the environment variable APVIZ_CACHE, or the user's cache folder."""
    value = os.environ.get("APVIZ_CACHE")
    return Path(value).expanduser() if value else Path(pooch.os_cache("apviz"))


def locate(card: Card) -> Path:
    """Find the first of the card's files, in APVIZ_DATA or in the cache, or in their subfolder of the data set."""
    for folder in (data_folder(), cache_folder()):
        if folder is None:
            continue
        for file in card.files:
            for candidate in (folder / file, folder / card.name / file):
                if candidate.is_file():
                    return candidate
    raise DatasetUnavailable(_advice(card))


def _advice(card: Card) -> str:
    folder = data_folder()
    place = f"the APVIZ_DATA folder ({folder})" if folder else "a folder and set APVIZ_DATA to it"
    how = f"Run `apviz datasets fetch {card.name}`, or put" if card.urls else f"{card.how_to_get} Put"
    return f"The data set {card.name!r} is not on this machine. {how} {' or '.join(card.files)} into {place}."


def fetch_card(card: Card, *, progress: bool = True, base_url: str | None = None) -> Path:
    """Download the card's archive into the cache (see `apviz.datasets.fetch`)."""
    if not card.urls:
        if not card.files:
            raise DownloadError(f"{card.name}: {card.how_to_get}")
        raise DownloadError(f"{card.name} cannot be fetched. {_advice(card)}")
    url = card.urls[0] if base_url is None else f"{base_url.rstrip('/')}/{card.files[0]}"
    folder = cache_folder() / card.name
    pooch.get_logger().setLevel("WARNING")  # its lower levels advise the user to note a checksum
    try:
        path = pooch.retrieve(
            url, known_hash=f"sha256:{card.sha256}" if card.sha256 else None, fname=card.files[0], path=folder,
            downloader=partial(_download, progress=progress),
        )  # fmt: skip
    except ValueError as error:  # pooch removes the bad file and names both checksums
        raise DownloadError(f"{card.name}: wrong checksum. {error}") from error
    return Path(path)


def _download(url: str, output_file: str | os.PathLike[str], pooch: Any = None, *, progress: bool) -> None:
    """Download a file for pooch, with a progress bar; repeat an interrupted transfer."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _transfer(url, Path(output_file), progress)
            break
        except requests.RequestException as error:
            is_final = error.response is not None and error.response.status_code < 500
            if is_final or attempt == ATTEMPTS:
                raise DownloadError(f"Could not download {url}: {error}") from error
    if url.endswith(".zip") and not zipfile.is_zipfile(output_file):
        raise DownloadError(f"{url} did not send a zip archive (an error page?); nothing was kept")


def _transfer(url: str, file: Path, progress: bool) -> None:
    # compression by the server would make lengths meaningless
    headers = {"Accept-Encoding": "identity"}
    with (
        requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response,
        _bar(progress) as bar,
        file.open("wb") as part,
    ):
        response.raise_for_status()
        length = response.headers.get("Content-Length")
        total = int(length) if length else None
        task = bar.add_task("", total=total) if bar else None
        for chunk in response.iter_content(CHUNK):
            part.write(chunk)
            if bar and task is not None:
                bar.update(task, advance=len(chunk))
        if total is not None and part.tell() != total:
            raise requests.ConnectionError(f"the transfer ended after {part.tell():,} of {total:,} bytes")


def _bar(shown: bool) -> AbstractContextManager[Progress | None]:
    if not shown:
        return nullcontext()
    return Progress(BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
