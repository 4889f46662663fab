"""Write the tables of the page on broken models: `python -m docs.building.causes`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from apviz.analysis import Limit
from benchmarks.causes.running import case_of, count
from benchmarks.causes.systems import HEALTHY
from benchmarks.machine import RESULTS

PAGE = Path(__file__).resolve().parent.parent / "benchmarks/causes.md"
SCORES = RESULTS / "diagnosers.json"
SCORES_MARKS = "<!-- of results/diagnosers.json -->", "<!-- its end -->"
CAUSES_MARKS = "<!-- the causes of seed 0 -->", "<!-- their end -->"


def scores() -> str:
    """Return a row for every diagnoser and seed, the best first."""
    found = json.loads(SCORES.read_text("utf-8"))
    rows = sorted(found, key=lambda row: (row["seed"], -row["right"], row["false alarms"]))
    lines = [f"| {row['file']} | {row['seed']} | {row['right']} | {row['false alarms']} |" for row in rows]
    head = ["| diagnoser | seed | named right, of 100 | false alarms, of 25 |", "|---|---|---|---|"]
    return "\n".join([*head, *lines])


def causes() -> str:
    """Return a table of the causes, with the number of systems of each."""
    counted = Counter(case_of(number, 0).cause for number in range(count()))
    rows = [
        f"| `{limit.name}` | {limit.value} | {counted[limit.name]} |"
        for limit in Limit
        if counted[limit.name] and limit.name != HEALTHY
    ]
    return "\n".join(["| cause | in words | systems |", "|---|---|---|", *rows])


def written() -> str:
    """Return the page with its present tables."""
    text = PAGE.read_text("utf-8")
    for (begin, end), table in ((SCORES_MARKS, scores()), (CAUSES_MARKS, causes())):
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{table}\n{end}{rest.split(end)[1]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
