"""Runs the notebooks and writes their pages, or slides of them.

python -m notebooks.build [--slides] [--timeout SECONDS] [--jobs N] [--to FOLDER] [NOTEBOOK ...]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat

from notebooks.build.pages import write_pages
from notebooks.build.running import Ran, run
from notebooks.build.slides import on_slides, write_slides

NOTEBOOKS = Path(__file__).resolve().parent.parent


def main(words: Sequence[str] | None = None) -> int:
    """Returns 0 where all is well, and writes the pages only then."""
    parser = argparse.ArgumentParser(prog="python -m notebooks.build", description=__doc__.partition("\n")[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="all in this folder, where none is named")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a notebook (default: 300)")
    parser.add_argument("--jobs", type=int, default=2, help="notebooks at once (default: 2)")
    parser.add_argument("--slides", action="store_true", help="slides, of the notebooks that have some")
    parser.add_argument("--to", type=Path, help="folder, written anew (default: notebooks/html, or notebooks/slides)")
    asked = parser.parse_args(words)
    paths = asked.notebooks or sorted(NOTEBOOKS.glob("*.ipynb"))
    if asked.slides:
        paths = [path for path in paths if on_slides(nbformat.read(path, 4))]
    to = asked.to or NOTEBOOKS / ("slides" if asked.slides else "html")
    if not paths:
        print(f"there is no notebook in {NOTEBOOKS}", file=sys.stderr)
        return 1
    ran = asyncio.run(_all(paths, asked.timeout, asked.jobs))
    failed = sum(bool(each.problems) for each in ran)
    print(f"{len(ran) - failed} passed, {failed} failed")
    if failed:
        return 1
    write = write_slides if asked.slides else write_pages
    write([(each.path.stem, each.notebook) for each in ran], to)
    print(to / "index.html")
    return 0


async def _all(paths: Sequence[Path], timeout: float, jobs: int) -> list[Ran]:
    ran = []
    async for each in run(paths, timeout=timeout, at_once=jobs):
        print(f"{each.path.name}: {each.seconds:.0f} s{', FAILED' if each.problems else ''}", flush=True)
        for problem in each.problems:
            print(problem, file=sys.stderr, flush=True)
        ran.append(each)
    return sorted(ran, key=lambda each: paths.index(each.path))


if __name__ == "__main__":
    sys.exit(main())
