"""Run the named parts, or all, each in its own process, so that none inherits another's memory or threads.

`solvers:DATASET:SIZE:RHS` is one data set of the comparison of solvers with RHS right-hand sides
(`benchmarks/solvers.py`). Existing results are kept; see `python -m benchmarks.solvers --again`. A named part takes
under ten minutes. It lists what remains after that time, and resumes when it is run again.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.solvers import SIZES

SOLVERS = tuple(
    f"solvers:{dataset}:{size}:{rhs}" for size, datasets in SIZES.items() for dataset in datasets for rhs in (1, 16)
)
WITHIN = ("--within", "580")
# a cell that has started may take four times the limit of a task
LEADERBOARD_WITHIN = ("--within", "480")
# and this one its own limit
HIGP_WITHIN = ("--within", "270")
PARTS = (
    "columns_matmul", "engine", "epoch_cost", "memory", "refinement", "chooser", "earth", "scaling", "published_sgemm",
    "training", *SOLVERS, "leaderboard", "higp", "ranks",
)  # fmt: skip


def commands(part: str, *, named: bool) -> list[list[str]]:
    """Return the modules that a part runs, with their arguments; a named part ends within ten minutes."""
    if part == "leaderboard":
        return [[part, "run", *(LEADERBOARD_WITHIN if named else ())], [part, "page"]]
    if part == "higp":
        return [[part, *(HIGP_WITHIN if named else ())]]
    name, *of = part.split(":")
    return [[name, *([of[0], "--size", of[1], "--rhs", of[2], *(WITHIN if named else ())] if of else ())]]


def main() -> int:
    parts = sys.argv[1:] or list(PARTS)
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        print(f"parts are {', '.join(PARTS)}; there is no {', '.join(unknown)}", file=sys.stderr)
        return 2
    failed = []
    for part in parts:
        print(f"== {part}", flush=True)
        for module, *arguments in commands(part, named=bool(sys.argv[1:])):
            if subprocess.run([sys.executable, "-m", f"benchmarks.{module}", *arguments]).returncode:
                failed.append(part)
                break
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
