"""Run the campaigns for any time: `python -m tests.trust --budget 10m` resumes where the last run ended.

A case is its seed; `python -m tests.trust --seed 17 --campaign truth` repeats one, and describes it.
`benchmarks/results/trust.json` has the figures, and the failures.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from types import ModuleType
from typing import Annotated, Any

import torch
import typer

from apviz.files import file_made_whole
from benchmarks.machine import RESULTS, describe
from tests.processes import FRESH, PRELOADED
from tests.trust import (
    addresses,
    arguments,
    bands,
    certificates,
    gradients,
    install,
    interrupt,
    kill,
    long,
    memory,
    posterior,
    strangers,
    tables,
    truth,
    write,
)  # fmt: skip

CAMPAIGNS: dict[str, ModuleType] = {
    "truth": truth, "bands": bands, "certificates": certificates, "posterior": posterior, "kill": kill,
    "write": write, "memory": memory, "interrupt": interrupt,
    "input-tables": tables, "input-arguments": arguments, "input-addresses": addresses, "strangers": strangers,
    "long": long, "install": install, "gradients": gradients,
}  # fmt: skip
FIGURES = RESULTS / "trust.json"
#: seconds after which the figures are written
KEPT_EVERY = 20.0


def seconds(budget: str) -> float:
    """Parse `90s`, `10m` or `2h`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", budget)
    if found is None:
        raise typer.BadParameter(f"--budget must be such as 90s, 10m or 2h, got {budget!r}")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def read() -> dict[str, Any]:
    """Return the figures so far."""
    found: dict[str, Any] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    return found


def keep(name: str, figures: dict[str, Any]) -> None:
    """Write the figures of a campaign next to those of the others."""
    whole = read() | {name: figures | {"machine": describe()}}
    with file_made_whole(FIGURES) as file:
        file.write((json.dumps(whole, indent=1, ensure_ascii=False) + "\n").encode())


def work_on(name: str, budget: float) -> dict[str, Any]:
    """Resume a campaign for `budget` seconds, and return its figures."""
    module, began = CAMPAIGNS[name], time.monotonic()
    before = read().get(name, {"cases": 0, "hours": 0.0, "how": {}, "wrong": {}})
    how, wrong, seed = Counter(before["how"]), dict(before["wrong"]), int(before["cases"])
    kept, fixed = began, int(before.get("fixed", 0))
    # failures are tried again: they may have been fixed
    for number, was in list(wrong.items()):
        verdict = module.judge(int(number))
        if not verdict.is_wrong:
            del wrong[number]
            how.subtract([was["how"]])
            how[verdict.how] += 1
            fixed += 1

    def figures() -> dict[str, Any]:
        hours = round(before["hours"] + (time.monotonic() - began) / 3600, 4)
        measured = module.measured() if hasattr(module, "measured") else {}
        return {"cases": seed, "hours": hours, "how": dict(+how), "fixed": fixed, "wrong": wrong, **measured}

    while time.monotonic() - began < budget:
        verdict = module.judge(seed)
        how[verdict.how] += 1
        if verdict.is_wrong:
            wrong[str(seed)] = {"how": verdict.how, "said": verdict.said, "claimed": verdict.claimed,
                                "true": verdict.true, "case": module.described(seed)}  # fmt: skip
            typer.echo(f"{name} {seed}: {verdict.how}: {verdict.said}")
        seed += 1
        if time.monotonic() - kept > KEPT_EVERY:
            keep(name, figures())
            kept = time.monotonic()
    keep(name, figures())
    return figures()


def main(
    budget: Annotated[str, typer.Option(help="In all: 90s, 10m, 2h.")] = "10m",
    campaign: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(CAMPAIGNS)}; all.")] = None,
    seed: Annotated[int | None, typer.Option(help="Only this case, and what it is.")] = None,
) -> None:
    """Test random cases against apviz's promises."""
    torch.set_num_threads(1)
    FRESH.set_forkserver_preload([*PRELOADED, *(each.__name__ for each in CAMPAIGNS.values())])
    chosen = campaign or list(CAMPAIGNS)
    unknown = sorted(set(chosen) - set(CAMPAIGNS))
    if unknown:
        raise typer.BadParameter(f"there is no campaign {', '.join(unknown)}; there are {', '.join(CAMPAIGNS)}")
    for name in chosen:
        if seed is not None:
            typer.echo(f"{name} {seed}: {CAMPAIGNS[name].described(seed)}\n{CAMPAIGNS[name].judge(seed)}")
            continue
        found = work_on(name, seconds(budget) / len(chosen))
        told = ", ".join(f"{number:,} {how}" for how, number in sorted(found["how"].items()))
        typer.echo(f"{name}: {found['cases']:,} cases in {found['hours']:.2f} h: {told}; {len(found['wrong'])} wrong")


if __name__ == "__main__":
    typer.run(main)
