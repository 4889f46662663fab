"""Summarise from the results what has and has not run on a GPU: for `apviz doctor` and the page of benchmarks.

python -m benchmarks.gpu.summary      reads results/gpu/*.json, writes apviz/run_on_gpus.json and benchmarks/README.md
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.gpu.budgets import STAGES
from benchmarks.machine import RESULTS

ROOT = Path(__file__).parents[2]
FOLDER, FILE, README = RESULTS / "gpu", ROOT / "apviz" / "run_on_gpus.json", ROOT / "benchmarks" / "README.md"
MARKS = ("<!-- run on a GPU -->", "<!-- its end -->")
NOTHING = "Nothing has run on a GPU yet."
#: a stage's name in a sentence
CALLED = {
    "truth": "engines against float64", "suite": "tests", "products": "speed of products", "profiled": "profiles",
    "solves": "seconds of solves", "table1": "a training step of the paper's Table 1", "million": "a million rows",
}  # fmt: skip


def results(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """Return the full-size results from a GPU, by stage."""
    found = {}
    for stage in STAGES:
        path = folder / f"{stage.name}.json"
        one = json.loads(path.read_text()) if path.exists() else {}
        if one.get("machine") and one["machine"].get("device") == "cuda" and not one.get("tiny"):
            found[stage.name] = one
    return found


def sentences(found: dict[str, dict[str, Any]]) -> list[str]:
    """List what ran, which parts were wrong or failed, and what did not run."""
    if not any(measured(one) for one in found.values()):
        return [NOTHING]
    about = next(one["machine"] for one in found.values() if measured(one))
    versions = about["versions"]
    said = [f"Run on {about['gpu']} on {about['date'][:10]}, torch {versions['torch']}, Triton {versions['triton']}."]
    if "truth" in found:
        said += of_truth(found["truth"]["entries"])
    if "suite" in found:
        said += of_suite(found["suite"]["entries"].get("outcomes", {}))
    ran = [
        f"{CALLED[name]} ({measured(one)} of {len(one['entries'])} entries)"
        for name, one in found.items() if measured(one) and name not in ("truth", "suite")
    ]  # fmt: skip
    left = [CALLED[stage.name] for stage in STAGES if not measured(found.get(stage.name, {}))]
    said += [f"Measured too: {', '.join(ran)}."] if ran else []
    return said + ([f"Not run: {', '.join(left)}."] if left else [])


def measured(one: dict[str, Any]) -> int:
    """Return the number of entries that have numbers."""
    return sum("reason" not in cell for cell in one.get("entries", {}).values())


def of_truth(entries: dict[str, Any]) -> list[str]:
    """Count the correct cases of every engine, and name the others."""
    cases = {name: cell for name, cell in entries.items() if not name.startswith("doctor")}
    ran = {name: cell for name, cell in cases.items() if "worst" in cell or "traceback" in cell}
    right = Counter(name.split()[0] for name, cell in ran.items() if cell.get("right"))
    total = Counter(name.split()[0] for name in ran)
    said = [
        f"Right to float64: {', '.join(f'{name} in {right[name]} of {count} cases' for name, count in total.items())}."
    ]
    bad = [name for name, cell in ran.items() if not cell.get("right")]
    more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
    return (said if total else []) + ([f"Wrong or failed: {', '.join(bad[:5])}{more}."] if bad else [])


def of_suite(outcomes: dict[str, Any]) -> list[str]:
    counts = outcomes.get("counts", {})
    if not counts:
        return []
    listed = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    return [f"Tests on it: {listed}; {outcomes.get('ended', 'interrupted')}."]


def readme(text: str, said: list[str]) -> str:
    """Return the page with the sentences between its marks."""
    before, rest = text.split(MARKS[0])
    _, after = rest.split(MARKS[1])
    return f"{before}{MARKS[0]}\n{' '.join(said)}\n{MARKS[1]}{after}"


def main() -> None:
    said = sentences(results())
    FILE.write_text(json.dumps({"sentences": said}, indent=1, ensure_ascii=False) + "\n")
    README.write_text(readme(README.read_text(), said))
    print(" ".join(said))


if __name__ == "__main__":
    main()
