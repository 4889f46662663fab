"""Solve, diagnose, compare with the true causes, and keep the result; see `benchmarks.causes`.

`python -m benchmarks.causes score my_diagnoser.py` scores another diagnoser, `python -m benchmarks.causes write FOLDER`
writes the systems as files.
"""

from __future__ import annotations

import argparse
import sys

import torch

from apviz.cluster import Cluster, Here
from benchmarks.causes import scoring
from benchmarks.causes.running import count, counted, tried
from benchmarks.machine import keep

#: no rule or threshold was set with systems of these seeds
JUDGED_FROM = 100


def main() -> int:
    if sys.argv[1:2] in (["score"], ["write"]):
        return scoring.main(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, help="systems, from 0; all if not given")
    parser.add_argument("--seed", type=int, default=JUDGED_FROM, help="first seed; results are kept from 100 on")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds")
    parser.add_argument("--scheduler", help="of Dask, whose workers solve: tcp://...")
    parser.add_argument("--workers", type=int, help="number of local workers instead")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    seeds, numbers = range(chosen.seed, chosen.seed + chosen.seeds), chosen.numbers or range(count())
    alone = chosen.scheduler is None and chosen.workers is None
    with Here() if alone else Cluster(chosen.scheduler, workers=chosen.workers) as place:
        of_seeds = {seed: tried(numbers, seed, place) for seed in seeds}
    totals = {f"seed {seed}": counted(rows) for seed, rows in of_seeds.items()}
    print(totals)
    if not chosen.numbers and chosen.seed >= JUDGED_FROM:
        missed = [row for seed in seeds[1:] for row in of_seeds[seed] if row["said"] != row["cause"]]
        keep("causes", {**totals, "rows": of_seeds[chosen.seed], "missed with other seeds": missed})
    return 0


if __name__ == "__main__":
    sys.exit(main())
