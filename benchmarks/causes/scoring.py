"""Score a diagnoser on the systems of a seed.

A diagnoser is a Python file with a function `diagnose(folder)`: it reads the files of one case, and returns the name of
a cause. It may call a program in any language.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from apviz.analysis import Limit
from benchmarks.causes.corpus import ANSWERS, write
from benchmarks.causes.running import count
from benchmarks.causes.systems import HEALTHY

#: no rule or threshold of apviz was set with systems of these seeds
JUDGED_FROM = 100
CAUSES = tuple(limit.name for limit in Limit)

Diagnoser = Callable[[Path], str]


def diagnoser_of(path: Path) -> Diagnoser:
    """Return the function `diagnose` of a Python file.

    Raises:
        ValueError: the file is missing, or has no such function.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, "diagnose", None)
    if not callable(found):
        raise ValueError(f"{path} must have a function diagnose(folder), which returns the name of a cause")
    made: Diagnoser = found
    return made


def scored(diagnose: Diagnoser, corpus: Path) -> dict[str, Any]:
    """Diagnose every case of a corpus, and compare with its answers.

    Returns:
        `right` of `causes`, `false alarms` of `healthy`, for each cause the number `right` and `of`, and the `missed`
        cases with what was said. A diagnosis that raises, or names no cause, counts as wrong.
    """
    answers = json.loads((corpus / ANSWERS).read_text("utf-8"))["answers"]
    by_cause: dict[str, dict[str, int]] = {}
    missed = []
    for name, answer in answers.items():
        cause = answer["cause"]
        try:
            said = str(diagnose(corpus / name))
        except Exception as error:  # a failure is an answer too
            said = f"{type(error).__name__}: {error}"[:200]
        of = by_cause.setdefault(cause, {"right": 0, "of": 0})
        of["of"] += 1
        of["right"] += said == cause
        if said != cause:
            missed.append({"case": name, "cause": cause, "said": said, "why": answer["why"]})
    healthy = by_cause.get(HEALTHY, {"right": 0, "of": 0})
    with_cause = [each for cause, each in by_cause.items() if cause != HEALTHY]
    return {
        "causes": sum(each["of"] for each in with_cause), "right": sum(each["right"] for each in with_cause),
        "healthy": healthy["of"], "false alarms": healthy["of"] - healthy["right"],
        "by cause": dict(sorted(by_cause.items())), "missed": missed,
    }  # fmt: skip


def table(found: dict[str, Any]) -> str:
    """Return the score as text."""
    lines = [
        f"named right: {found['right']} of {found['causes']}; "
        f"false alarms: {found['false alarms']} of {found['healthy']}"
    ]
    lines += [f"  {cause:15} {each['right']:>3} of {each['of']}" for cause, each in found["by cause"].items()]
    lines += [f"  {each['case']}: {each['cause']}, not {each['said']} ({each['why']})" for each in found["missed"]]
    return "\n".join(lines)


def main(given: list[str]) -> int:
    """Run `score FILE` or `write FOLDER`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.causes", description=__doc__)
    parser.add_argument("command", choices=("score", "write"))
    parser.add_argument("path", type=Path, help="of the diagnoser's file, or of a new folder")
    parser.add_argument("numbers", nargs="*", type=int, help="systems, from 0; all if not given")
    parser.add_argument("--seed", type=int, default=JUDGED_FROM, help=f"scores count from seed {JUDGED_FROM} on")
    parser.add_argument("--corpus", type=Path, help="folder that `write` made, instead of new systems")
    parser.add_argument("--out", type=Path, help="file for the score as JSON")
    chosen = parser.parse_args(given)
    torch.set_num_threads(1)
    numbers = chosen.numbers or range(count())
    if chosen.command == "write":
        print(write(chosen.path, numbers, chosen.seed))
        return 0
    diagnose = diagnoser_of(chosen.path)
    with tempfile.TemporaryDirectory() as temporary:
        corpus = chosen.corpus or write(Path(temporary) / "corpus", numbers, chosen.seed)
        found = scored(diagnose, corpus)
    print(table(found))
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
