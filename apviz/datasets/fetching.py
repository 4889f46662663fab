"""Location of data files on this machine, and their download on request."""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pooch
import requests
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from apviz.datasets.cards import Card

CHUNK = 1 << 16


class DatasetUnavailable(FileNotFoundError):
    """The data file is neither in the APVIZ_DATA folder nor in the cache."""


class DownloadError(OSError):
    """A failed download; the message says how much is kept and how to continue."""


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
            downloader=ResumingDownloader(folder / f"{card.files[0]}.part", progress=progress),
        )  # fmt: skip
    except ValueError as error:  # pooch removes the bad file and names both checksums
        raise DownloadError(f"{card.name}: wrong checksum. {error}") from error
    return Path(path)


@dataclass(frozen=True)
class ResumingDownloader:
    """A downloader for pooch that keeps an interrupted transfer in `part` and resumes it.

    pooch passes a new temporary file at each call, so the bytes are kept in a separate file until they are complete.

    Attributes:
        attempts: number of transfers before giving up.
        timeout: longest silence of a server, in seconds.
    """

    part: Path
    progress: bool = True
    attempts: int = 3
    timeout: float = 30.0

    def __call__(self, url: str, output_file: str | IO[bytes], pooch: Any = None) -> None:
        self.part.parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, self.attempts + 1):
            try:
                self._transfer(url)
                break
            except requests.RequestException as error:
                if attempt == self.attempts or not _worth_repeating(error):
                    raise DownloadError(self._explain(url, error)) from error
        if url.endswith(".zip") and not zipfile.is_zipfile(self.part):
            self.part.unlink()
            raise DownloadError(f"{url} did not send a zip archive (an error page?); nothing was kept")
        if isinstance(output_file, (str, os.PathLike)):
            shutil.move(self.part, output_file)
        else:
            with self.part.open("rb") as source:
                shutil.copyfileobj(source, output_file)
            self.part.unlink()

    def _transfer(self, url: str) -> None:
        have = self.part.stat().st_size if self.part.exists() else 0
        # compression by the server would make byte positions meaningless
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(url, headers=headers, stream=True, timeout=self.timeout) as response:
            if response.status_code == 416:
                if _total(response) == have:
                    return
                self.part.unlink()
                raise requests.ConnectionError("the kept part is longer than the file; starting again")
            response.raise_for_status()
            start = _range_start(response)
            resumed = have > 0 and start == have
            if response.status_code == 206 and not resumed:
                self.part.unlink(missing_ok=True)
                raise requests.ConnectionError(f"asked for bytes from {have}, got {start}; starting again")
            self._write(response, have if resumed else 0)

    def _write(self, response: requests.Response, start: int) -> None:
        total = _total(response)
        done = start
        with _bar(self.progress) as bar, self.part.open("ab" if start else "wb") as part:
            task = bar.add_task("", total=total, completed=start) if bar else None
            for chunk in response.iter_content(CHUNK):
                part.write(chunk)
                done += len(chunk)
                if bar and task is not None:
                    bar.update(task, completed=done)
        if total is not None and done != total:
            raise requests.ConnectionError(f"the transfer ended after {done:,} of {total:,} bytes")

    def _explain(self, url: str, error: requests.RequestException) -> str:
        have = self.part.stat().st_size if self.part.exists() else 0
        kept = f" {have:,} bytes are kept: fetch again to resume the download." if have else ""
        return f"Could not download {url}: {error}.{kept}"


def _worth_repeating(error: requests.RequestException) -> bool:
    return error.response is None or error.response.status_code >= 500


def _range_start(response: requests.Response) -> int | None:
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _total(response: requests.Response) -> int | None:
    """Return the full size of the file, also for a partial response; None if the server does not say."""
    found = re.search(r"/(\d+)$", response.headers.get("Content-Range", ""))
    if found:
        return int(found[1])
    length = response.headers.get("Content-Length")
    return int(length) if length and response.status_code == 200 else None


def _bar(shown: bool) -> AbstractContextManager[Progress | None]:
    if not shown:
        return nullcontext()
    return Progress(BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
