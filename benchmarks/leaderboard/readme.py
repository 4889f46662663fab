"""Write the leaderboard section of `benchmarks/README.md`: sentences and tables, from the files of results alone."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from apviz.files import file_made_whole
from benchmarks.leaderboard.cells import TOLERANCES
from benchmarks.leaderboard.checking import ENTRIES
from benchmarks.leaderboard.growth import Growth, Law, estimates, growth, words
from benchmarks.leaderboard.page import machines
from benchmarks.leaderboard.plan import GROWING_LIMIT, GROWING_TOL, LARGE_LIMIT, LIMIT, SIZES
from benchmarks.leaderboard.systems import HARD, PUBLISHED, N
from benchmarks.leaderboard.tables import AUTO, LOSS, coarse, losses, markdown, medians, standings, tabulate

README = Path(__file__).parents[1] / "README.md"
MARKS = ("<!-- the field of benchmarks.leaderboard -->", "<!-- the end of the field -->")
WIDTH = 120


def write(folder: Path) -> None:
    """Write the section into the README, between its two marks."""
    before, rest = README.read_text("utf-8").split(MARKS[0])
    _, after = rest.split(MARKS[1])
    with file_made_whole(README) as file:
        file.write(f"{before}{MARKS[0]}\n{section(folder)}\n{MARKS[1]}{after}".encode())


def section(folder: Path) -> str:
    """Return the text between the marks."""
    of = medians(tabulate(folder))
    at_n = of[of["n"] == N]
    published, hard = (at_n[at_n["family"] == family] for family in ("published", "hard"))
    found = sorted(growth(of), key=lambda each: each.system)
    return "\n\n".join([
        _filled(_what_is_measured(at_n, folder)), _filled(_how_auto_does(published, hard)),
        _filled(_what_the_table_is(published)), markdown(published),
        *([_filled(_what_growth_is(found)), _growing(found)] if found else []),
    ])  # fmt: skip


def _what_is_measured(of: pd.DataFrame, folder: Path) -> str:
    counts = [len(set(of["system"]) & set(family)) for family in (PUBLISHED, HARD)]
    tolerances = _listed(map(_tolerance, TOLERANCES))
    return (
        "The [leaderboard](leaderboard/RULES.md) also has the methods that papers since 2022 compare with: "
        f"{counts[0]} systems with published hyperparameters and {counts[1]} hard systems, at most {N:,} rows, "
        f"16 right-hand sides, to {tolerances}. Seconds are processor seconds, on {_listed(machines(folder))}; a task "
        f"that takes more than {LIMIT:g} s fails."
    )


def _how_auto_does(published: pd.DataFrame, hard: pd.DataFrame) -> str:
    words = []
    for name, of in (("published", published), ("hard", hard)):
        if not len(of):
            continue
        row = standings(of).set_index("entrant").loc[AUTO]
        times = f"in {row['times seconds']:.2f} times the seconds of the best method (median)"
        words.append(f"{int(row['done'])} of {int(row['asked'])} tasks of the {name} family, {times}")
    both = pd.concat([published, hard])
    asked, behind = len(both[both["entrant"] == AUTO]), losses(both)
    ours = both[both["entrant"] == AUTO].set_index(["system", "tol"])["seconds"]
    best = both[both["entrant"] != AUTO].groupby(["system", "tol"])["seconds"].min()
    only_others = int((~np.isfinite(ours) & np.isfinite(best.reindex(ours.index))).sum())
    said = f"`auto` solves {', and '.join(words)}. "
    said += "The [page](results/leaderboard/index.html) starts with the tasks where `auto` is slow, and says why: it "
    said += f"takes more than {LOSS:g} times the seconds of the best on {len(behind)} of {asked} tasks"
    finite = behind[np.isfinite(behind["regret"])]
    if len(finite):
        worst = finite.iloc[0]
        said += f", at worst {worst['regret']:.1f} times ({worst['system']}, to {_tolerance(worst['tol'])})"
    return f"{said}. It fails {only_others or 'no'} task{'s' * (only_others > 1)} that another method solves."


def _what_the_table_is(of: pd.DataFrame) -> str:
    of = of[of["tol"] == GROWING_TOL]
    seeds = sorted(set(of["seeds"].astype(int)))
    said = f"Work and, in brackets, processor seconds to {GROWING_TOL:g}; no work is given if entries are not counted. "
    if seeds[-1] == 1:
        said += "One seed."
    else:
        fewer = f", or of {seeds[0]}" if seeds[0] < seeds[-1] else ""
        said += f"Medians of {seeds[-1]} seeds{fewer}; {_scatter(of)}."
    systems = of["system"].nunique()
    partly = [name for name, own in of.groupby("entrant", sort=False) if own["system"].nunique() < systems]
    return f"{said} Measured on some systems only: {_listed(partly)}." if partly else said


def _scatter(of: pd.DataFrame) -> str:
    """Describe the spread over seeds."""
    done = of[np.isfinite(of["seconds most"]) & (of["seeds"] > 1) & np.isfinite(of["work"])]
    times = (done["work most"] / done["work least"]).quantile([0.5, 0.9])
    return f"the largest work is {times[0.5]:.2f} times the least in the median and {times[0.9]:.2f} in 90% of cells"


def _what_growth_is(found: Sequence[Growth]) -> str:
    estimated = estimates(found)
    said = (
        f"Processor seconds to {GROWING_TOL:g} with more rows. The limit is {GROWING_LIMIT:g} s up to "
        f"{SIZES[-1]:,} rows and {LARGE_LIMIT:g} s beyond. Exponents of n are least-squares fits in logarithms, with "
        "their standard errors and, in brackets, the largest size of the fit."
    )
    if estimated:
        most = max(100 * cell["error"] / cell["residual"] for cell in estimated)
        least = min(cell["n"] for cell in estimated)
        said += (
            f" From {least:,} rows on, residuals are estimated from {ENTRIES:,} entries of K, to ± {most:.2g}% or "
            "better, and two standard errors count against the method."
        )
    if any(math.isfinite(value) for each in found for value in each.foreseen.values()):
        said += " *Italics* are extrapolations by the exponent, not measurements."
    return said


def _growing(found: Sequence[Growth]) -> str:
    sizes = sorted({n for each in found for n in each.cells})
    lines = [["data", "method", *(f"{n:,}" for n in sizes), "exponent of seconds", "of work"]]
    lines.append(["---"] * len(lines[0]))
    lines += [
        [
            each.system, each.entrant, *(_seconds(each, n) for n in sizes),
            *(_exponent(each.laws[measure]) for measure in ("seconds", "work")),
        ]
        for each in found
    ]  # fmt: skip
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _seconds(of: Growth, n: int) -> str:
    if n in of.foreseen:
        return f"*{coarse(of.foreseen[n])}*" if math.isfinite(of.foreseen[n]) else ""
    if n not in of.cells:
        return ""
    row = of.cells[n]
    if math.isfinite(row["seconds"]):
        return coarse(row["seconds"])
    return str(row["failure"]).partition(":")[0]


def _exponent(law: Law) -> str:
    return f"{words(law)} ({law.sizes[-1]:,})" if math.isfinite(law.exponent) else "–"


def _tolerance(tol: float) -> str:
    return f"{tol:g}".replace("e-0", "e-")


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
