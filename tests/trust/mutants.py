"""Mutants of the core: `make mutants ONLY='apviz.rules*'` changes one thing after another; does a test fail?

`mutmut` makes and tries them, of the files and by the tests that pyproject.toml names; `SAMPLE=40` tries 40 of a
file, at random. How many of a file's were made, tried and killed goes into `benchmarks/results/trust.json`.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any

import typer

from apviz.files import file_made_whole
from benchmarks.machine import describe
from tests.trust.__main__ import FIGURES, json, read

#: the key of the figures, next to those of the campaigns
KEY = "mutants"
_LINE = re.compile(r"^\s*(?P<name>[\w.ǁ]+__mutmut_\d+): (?P<how>[a-z ]+)$")


def made(results: str) -> dict[str, dict[str, str]]:
    """Return the outcomes of the mutants of every file, by name, from the output of `mutmut results --all true`."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for line in results.splitlines():
        if match := _LINE.match(line):
            module = re.split(r"\.x[_ǁ]", match["name"])[0]
            found[f"{module.replace('.', '/')}.py"][match["name"]] = match["how"]
    return dict(found)


def counted(of_a_file: dict[str, str]) -> dict[str, Any]:
    """Count the mutants made and tried, and their outcomes; a mutant may hang because of its forked process."""
    how = Counter(each for each in of_a_file.values() if each not in ("not checked", "timeout", "suspicious"))
    return {"made": len(of_a_file), "mutants": how.total(), "how": dict(how)}


def main(
    only: Annotated[list[str] | None, typer.Argument(help="Names of mutants, such as 'apviz.rules*'.")] = None,
    sample: Annotated[int | None, typer.Option(help="Take this number of each file, at random.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 0,
    children: Annotated[int | None, typer.Option(help="Run this number at once; default: one per core.", min=1)] = None,
) -> None:
    """Try mutants, and record how many were killed."""
    mutmut = str(Path(sys.executable).with_name("mutmut"))

    def results() -> dict[str, dict[str, str]]:
        said = subprocess.run([mutmut, "results", "--all", "true"], check=True, capture_output=True, text=True)
        return made(said.stdout)

    chosen = [] if sample else list(only or [])
    if sample is not None:
        # mutants are made before it notices that none has this name
        making = subprocess.run([mutmut, "run", "none of them"], capture_output=True, text=True)
        for mutants in results().values():
            names = sorted(name for name in mutants if not only or any(fnmatch(name, each) for each in only))
            random.Random(seed).shuffle(names)  # a smaller sample is a subset of a larger one
            chosen += names[:sample]
        if not chosen:  # without names, all would be tried
            raise typer.BadParameter(f"no mutant is called {only}: {making.stdout[-2000:]}{making.stderr[-2000:]}")
    at_once = [] if children is None else ["--max-children", str(children)]
    subprocess.run([mutmut, "run", *at_once, *chosen], check=True)
    figures, machine = read(), describe()
    known = figures.setdefault(KEY, {})
    for name, mutants in results().items():
        found = counted(mutants)
        if not found["mutants"]:
            continue
        known[name] = found | {"machine": machine}
        typer.echo(f"{name}: {found['how'].get('killed', 0)} of {found['mutants']} mutants killed, of {found['made']}")
    with file_made_whole(FIGURES) as file:
        file.write((json.dumps(figures, indent=1, ensure_ascii=False) + "\n").encode())


if __name__ == "__main__":
    typer.run(main)
