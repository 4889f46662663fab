"""Tables of people and programs, whole, damaged and mislabelled: each is read correctly, or rejected in a sentence.

A case is its seed. Half of the files are whole: what is read from them is checked against the numbers they were
written from. The others are cut, changed, or no tables at all. Both are read by `apviz.datasets.load_table`, and like
an upload to the dashboard, within its limits.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from apviz import datasets
from apviz.dashboard.store import own_data
from apviz.datasets.tables.table import TableChoices
from tests.trust.bounds import Endless, TooLarge, bounded, fault_of
from tests.trust.table_files import Case, case
from tests.trust.verdicts import Verdict

#: limit of an upload to a dashboard, in MB
UPLOAD_MB = 100
#: relative tolerance of a number that was written and read
DIGITS = 1e-12


def judge(seed: int) -> Verdict:
    """Read the file of a seed, and compare the result or the message with the written numbers."""
    made = case(seed)
    with tempfile.TemporaryDirectory(prefix="apviz-trust-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / made.name
        if made.content is not None:
            path.write_bytes(made.content)
        elif made.words["then"] == "a folder":
            path.mkdir()
        try:
            with bounded():
                how = _uploaded(path)
            if made.words.get("then", "").startswith("a bomb"):
                return Verdict(how)  # a user of their own machine may read a file as large as the memory
            with bounded():
                return Verdict(_loaded(path, made))
        except AssertionError as wrong:
            return Verdict("false", f"{wrong} ({made.words})")
        except Endless as error:
            return Verdict("endless", f"{error} ({made.words})")
        except TooLarge as error:
            return Verdict("error", f"took {error} ({made.words})")


def _uploaded(path: Path) -> str:
    """Read the file like the dashboard."""
    try:
        table = own_data.look_into(path, UPLOAD_MB)
        own_data.check(table, TableChoices(target=table.default_target()))
    except (ValueError, OSError) as refused:
        assert not (fault := fault_of(refused, (ValueError, FileNotFoundError), [path.name])), f"uploaded: {fault}"
        return "refused"
    except Exception as error:
        raise AssertionError(f"uploaded: {type(error).__name__}: {error}") from error
    return "read"


def _loaded(path: Path, made: Case) -> str:
    settings = dict(made.settings)
    asked = _asked(path, made) if made.truth is not None else {}
    if asked:
        settings["decimal"] = asked
    try:
        data = datasets.load_table(path, **settings)
    except Exception as error:
        names = [path.name, *made.settings]
        fault = fault_of(error, (ValueError, FileNotFoundError), names)
        assert not fault, f"{fault} of {made.settings}"
        assert made.truth is None, f"a whole table is refused: {error} of {made.settings}"
        return "refused"
    n, d = data.train_x.shape
    assert data.train_y.shape == (n,) and data.test_x.shape[1] == d == len(data.feature_names), "shapes"
    for values in (data.train_x, data.train_y, data.test_x, data.test_y):
        assert torch.isfinite(values).all(), f"what is read is not finite, of {made.settings}"
    if made.truth is None:
        return "read"
    _held_against(made.truth, path, settings)
    return "asked, and read as it was written" if asked else "read, as it was written"


def _asked(path: Path, made: Case) -> dict[str, str]:
    """Return marks of ambiguous columns, which must have both readings and no unambiguous text."""
    table = datasets.inspect_table(path, header=made.settings.get("header"), target=made.settings["target"])
    names, nameless = list(made.truth or {}), made.settings.get("header") is False
    asked = {}
    for place, column in enumerate(table.columns):
        if column.question is None:
            continue
        name = column.name.strip() if not nameless else made.order[place]
        assert name in made.marks, f"{name} is asked about, and was written plainly, of {names}"
        single = [cell for cell in made.cells[name] if len(_meanings(cell)) == 1 and ("," in cell or "." in cell)]
        assert len(single) <= 0.02 * len(made.cells[name]), f"{name} is asked about, and {single[0]!r} tells"
        value = dict(zip(made.cells[name], (made.truth or {})[name], strict=True))[column.question.example]
        said = column.question.readings[made.marks[name]].split(" ")[0]
        assert np.isclose(float(said), value, rtol=1e-9), f"{name} is asked about with {column.question.readings}"
        asked[column.name] = made.marks[name]
    return asked


def _meanings(text: str) -> set[float]:
    """Return every possible value of a text with commas and points, independently of how apviz reads it."""
    found = set()
    for decimal, between in ((".", ","), (",", ".")):
        whole, *behind = text.lstrip("+-").split(decimal)
        groups = whole.split(between)
        plain = len(groups) == 1
        grouped = len(groups) > 1 and 1 <= len(groups[0]) <= 3 and all(len(each) == 3 for each in groups[1:])
        if len(behind) < 2 and (plain or (grouped and not groups[0].startswith("0"))):
            found.add(float(f"{''.join(groups)}.{''.join(behind)}"))
    return found


def _held_against(truth: dict[str, np.ndarray], path: Path, settings: dict[str, Any]) -> None:
    table = datasets.inspect_table(
        path, header=settings.get("header"), target=settings["target"], decimal=settings.get("decimal")
    )
    nameless = settings.get("header") is False
    assert nameless or set(truth) <= {each.name.strip() for each in table.columns}, "names of columns"
    for place, column in enumerate(table.columns):
        name = list(truth)[place] if nameless and place < 2 else column.name.strip()
        if name not in truth or column.kind == "constant":
            continue
        expected = truth[name]
        assert column.kind == "number", f"{name} is read as {column.kind}"
        np.testing.assert_allclose(column.values, expected, rtol=DIGITS, err_msg=f"{name} is read as another number")


def described(seed: int) -> dict[str, str]:
    """Describe a case in words."""
    made = case(seed)
    size = "none" if made.content is None else f"{len(made.content):,}"
    return {"file": made.name, "bytes": size, "settings": str(made.settings), **made.words}
