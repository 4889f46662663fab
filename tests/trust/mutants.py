"""Mutants of the core: `make mutants ONLY='apviz.rules*'` changes one thing after another; does a test fail?

`mutmut` makes and tries them, of the files and by the tests that pyproject.toml names; how many of a file's were killed
goes into `benchmarks/results/trust.json`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Annotated

import typer

from apviz.files import file_made_whole
from benchmarks.machine import describe
from tests.trust.__main__ import FIGURES, json, read

#: under which the figures are, beside those of the campaigns
KEY = "mutants"
_LINE = re.compile(r"^\s*(?P<name>[\w.ǁ]+__mutmut_\d+): (?P<how>[a-z ]+)$")


def counted(results: str) -> dict[str, Counter[str]]:
    """How the mutants of every file ended, from what `mutmut results --all true` says; those not tried are left out."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for line in results.splitlines():
        if (match := _LINE.match(line)) and match["how"] != "not checked":
            module = re.split(r"\.x[_ǁ]", match["name"])[0]
            found[f"{module.replace('.', '/')}.py"][match["how"]] += 1
    return dict(found)


def main(
    only: Annotated[list[str] | None, typer.Argument(help="Names of mutants, such as 'apviz.rules*'.")] = None,
) -> None:
    """Tries mutants, and keeps how many were killed."""
    mutmut = str(Path(sys.executable).with_name("mutmut"))
    subprocess.run([mutmut, "run", *(only or [])], check=True)
    results = subprocess.run([mutmut, "results", "--all", "true"], check=True, capture_output=True, text=True).stdout
    figures, machine = read(), describe()
    known = figures.setdefault(KEY, {})
    for module, how in counted(results).items():
        known[module] = {"mutants": how.total(), "how": dict(how), "machine": machine}
        typer.echo(f"{module}: {how['killed'] + how['timeout']} of {how.total()} mutants killed")
    with file_made_whole(FIGURES) as file:
        file.write((json.dumps(figures, indent=1, ensure_ascii=False) + "\n").encode())


if __name__ == "__main__":
    typer.run(main)
