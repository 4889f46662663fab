"""Examples: runs that ship with apviz and fill a new folder, so that no page of it is empty."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Collection
from pathlib import Path

from apviz.dashboard.store.runs_folder import RunsFolder

#: Start of the names of examples, by which people and pages recognise them.
PREFIX = "example "
#: Traces of a comparison, a noise sweep and a training; `python -m benchmarks.dashboard.examples` records them.
PATH = Path(__file__).with_name("examples.zip")


def add_examples(runs: RunsFolder) -> None:
    """Put the examples into a folder that has no run."""
    if runs.names():
        return
    runs.path.mkdir(parents=True, exist_ok=True)
    # next to the runs, so that each appears complete
    with tempfile.TemporaryDirectory(prefix=".examples-", dir=runs.path) as place:
        with zipfile.ZipFile(PATH) as archive:
            archive.extractall(place)
        for each in sorted(Path(place).iterdir()):
            shutil.move(each, runs.path / each.name)


def examples_in_words(names: Collection[str]) -> str:
    """Return a sentence on the examples among runs; empty without any."""
    count = sum(name.startswith(PREFIX) for name in names)
    if not count:
        return ""
    which = "These are" if count == len(names) else f"{count} of the {len(names)} runs are"
    return f"{which} stored examples from another machine."
