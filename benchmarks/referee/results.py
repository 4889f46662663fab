"""The files of results: one for each data set, one line for each run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apviz.files import file_made_whole
from benchmarks.machine import RESULTS

FOLDER = RESULTS / "referee"
#: what a file says of the machine
SAID = ("processor", "cores", "memory_gib", "python")


@dataclass(frozen=True)
class Asked:
    """One run: an entrant on a data set with n rows and a seed, in a track, with a budget in processor seconds."""

    entrant: str
    data: str
    track: str
    n: int
    seed: int
    budget: float

    @property
    def key(self) -> str:
        """Key of the run among those of its data set."""
        return f"{self.entrant} | {self.track} | n {self.n} | seed {self.seed} | {self.budget:g} s"


def read(path: Path) -> dict[str, Any]:
    """Return a file of results, empty if there is none."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"machines": [], "cells": {}}
    return found


def path_of(data: str, folder: Path) -> Path:
    """Return the path of a data set's results."""
    return folder / f"{data}.json"


def keep(asked: Asked, cell: dict[str, Any], machine: dict[str, Any], folder: Path) -> None:
    """Add a run to the results."""
    folder.mkdir(parents=True, exist_ok=True)
    path = path_of(asked.data, folder)
    kept = read(path)
    said = {name: machine[name] for name in SAID} | {"versions": machine["versions"]}
    if said not in kept["machines"]:
        kept["machines"].append(said)
    kept["cells"][asked.key] = cell | {"machine": kept["machines"].index(said)}
    lines = ",\n".join(
        f"  {json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in sorted(kept["cells"].items())
    )
    machines = json.dumps(kept["machines"], ensure_ascii=False)
    with file_made_whole(path) as file:
        file.write(f'{{\n "machines": {machines},\n "cells": {{\n{lines}\n }}\n}}\n'.encode())


def cells(folder: Path) -> list[dict[str, Any]]:
    """Return all runs of a folder."""
    return [cell for path in sorted(folder.glob("*.json")) for cell in read(path)["cells"].values()]


def machines(folder: Path) -> list[str]:
    """Return the machines of a folder's runs, in words, each once with all versions of apviz."""
    seen: dict[str, dict[str, bool]] = {}
    for path in sorted(folder.glob("*.json")):
        for each in read(path)["machines"]:
            named = {name: version for name, version in each["versions"].items() if version}
            own = named.pop("apviz", "of unknown version")
            others = ", ".join(f"{name} {version}" for name, version in named.items())
            words = f"one core of {each['cores']} of {each['processor']}, {each['memory_gib']:.0f} GiB"
            seen.setdefault(f"{words}, Python {each['python']}, {others}", {})[own] = True
    return [f"{words}, apviz {', '.join(sorted(versions))}" for words, versions in seen.items()]
