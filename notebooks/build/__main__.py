"""Run the notebooks once, and write them as pages and as slides.

python -m notebooks.build [--timeout SECONDS] [--jobs N] [--to FOLDER] [NOTEBOOK ...]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from notebooks.build.kit import write_kit
from notebooks.build.pages import write_pages
from notebooks.build.running import Ran, run
from notebooks.build.slides import write_slides

NOTEBOOKS = Path(__file__).resolve().parent.parent


def main(words: Sequence[str] | None = None) -> int:
    """Run the notebooks, and write pages and slides if none fails. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m notebooks.build", description=__doc__.partition("\n")[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="notebooks to run (default: all)")
    parser.add_argument("--timeout", type=float, default=300, help="time limit per notebook in seconds (default: 300)")
    parser.add_argument("--jobs", type=int, default=2, help="notebooks to run in parallel (default: 2)")
    parser.add_argument("--to", type=Path, default=NOTEBOOKS, help="folder of html and slides (default: notebooks)")
    arguments = parser.parse_args(words)
    paths = arguments.notebooks or sorted(NOTEBOOKS.glob("*.ipynb"))
    if not paths:
        print(f"no notebook to run in {NOTEBOOKS}", file=sys.stderr)
        return 1
    ran = asyncio.run(_all(paths, arguments.timeout, arguments.jobs))
    failed = sum(bool(each.problems) for each in ran)
    print(f"{len(ran) - failed} passed, {failed} failed")
    if failed:
        return 1
    for write, folder in ((write_pages, arguments.to / "html"), (write_slides, arguments.to / "slides")):
        write([(each.path.stem, each.notebook) for each in ran], folder)
        print(folder / "index.html")
    write_kit(arguments.to / "html" / "kit")
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
