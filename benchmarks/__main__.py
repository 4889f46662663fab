"""Runs the parts named, or all, one process each, so that none inherits another's memory or threads.

`solvers:DATASET:SIZE:RHS` is one data set of the comparison of solvers with so many right-hand sides
(`benchmarks/solvers.py`); what was measured before is left, see `python -m benchmarks.solvers --again`. A part that is
named takes under ten minutes; what it leaves then, it names, and goes on with when it is run again.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.solvers import SIZES

SOLVERS = tuple(
    f"solvers:{dataset}:{size}:{rhs}" for size, datasets in SIZES.items() for dataset in datasets for rhs in (1, 16)
)
WITHIN = ("--within", "580")
PARTS = (
    "columns_matmul", "epoch_cost", "memory", "refinement", "chooser", "earth", "scaling", "published_sgemm",
    "training", *SOLVERS,
)  # fmt: skip


def main() -> int:
    parts = sys.argv[1:] or list(PARTS)
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        print(f"parts are {', '.join(PARTS)}; there is no {', '.join(unknown)}", file=sys.stderr)
        return 2
    failed = []
    for part in parts:
        print(f"== {part}", flush=True)
        name, *of = part.split(":")
        arguments = [of[0], "--size", of[1], "--rhs", of[2], *(WITHIN if sys.argv[1:] else ())] if of else []
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments]).returncode:
            failed.append(part)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
