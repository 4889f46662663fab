"""The runner of the campaigns, its bounds, and the page of its figures; complete ones are in `results/trust.json`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.trust import __main__ as campaigns
from tests.trust.__main__ import seconds
from tests.trust.bounds import Endless, TooLarge, bounded, fault_of
from tests.trust.verdicts import Verdict


def test_a_budget_is_seconds_minutes_or_hours():
    assert [seconds(text) for text in ("90s", "10m", "1.5h", "7")] == [90, 600, 5400, 7]


def test_endless_cases_and_those_of_too_much_memory_are_stopped():
    with pytest.raises(Endless), bounded(seconds=0.1):
        while True:
            sum(range(1000))
    with pytest.raises(TooLarge), bounded(gigabytes=0.05):
        np.ones(10**7).sum()
    with bounded():
        sum(range(1000))


def test_a_rejection_is_one_sentence_of_a_documented_kind_that_names_something():
    assert fault_of(ValueError("tol must be positive"), (ValueError,), ["tol"]) == ""
    for error in (KeyError("tol"), ValueError(""), ValueError("tol\ntol"), ValueError("no"), MemoryError("tol")):
        assert fault_of(error, (ValueError,), ["tol"])


def test_failed_cases_are_tried_again(monkeypatch, tmp_path):
    from types import SimpleNamespace

    is_mended = False
    judge = lambda seed: Verdict("false" if seed == 3 and not is_mended else "ended")  # noqa: E731
    monkeypatch.setattr(campaigns, "FIGURES", tmp_path / "trust.json")
    monkeypatch.setitem(campaigns.CAMPAIGNS, "made", SimpleNamespace(judge=judge, described=lambda seed: {}))
    found = campaigns.work_on("made", 0.05)
    assert found["how"]["false"] == 1 and list(found["wrong"]) == ["3"] and found["fixed"] == 0
    is_mended = True
    again = campaigns.work_on("made", 0.0)
    assert again["wrong"] == {} and again["fixed"] == 1 and again["how"] == {"ended": again["cases"]}


def test_the_page_has_a_row_for_every_campaign_with_its_figures():
    import json
    import re
    import sys
    import tomllib

    sys.path.insert(0, str(campaigns.FIGURES.parents[2] / "docs"))
    from building import trust as page

    figures = json.loads(campaigns.FIGURES.read_text())
    of_mutants = figures.pop("mutants", {})
    known = tomllib.loads(page.CAMPAIGNS.read_text("utf-8"))
    assert set(figures) <= set(campaigns.CAMPAIGNS) == set(known)
    header, _, *rows = page.table().splitlines()
    assert [each.strip() for each in header.strip("|").split("|")] == list(page.COLUMNS)
    assert len(rows) == len(figures)
    for row, (name, found) in zip(rows, figures.items(), strict=True):
        cells = [each.strip() for each in row.strip("|").split("|")]
        assert len(cells) == len(page.COLUMNS)
        assert cells[:2] == [known[name]["title"], known[name]["tried"]]
        assert int(cells[2].replace(",", "")) == found["cases"] == sum(found["how"].values())
        assert float(cells[3]) == round(found["hours"], 2) and int(cells[4]) == len(found["wrong"])
        paths = [path for each in known[name].get("found", []) for path in each["tests"]]
        assert re.findall(r"\]\(\.\./\.\./([^)]*)\)", cells[5]) == paths
        assert all((campaigns.FIGURES.parents[2] / path).is_file() for path in paths)
    rows = page.mutants_table().splitlines()[2:]
    assert len(rows) == len(of_mutants)
    for row, (name, found) in zip(rows, of_mutants.items(), strict=True):
        cells = [each.strip() for each in row.strip("|").split("|")]
        survived = sum(number for how, number in found["how"].items() if how != "killed")
        numbers = [int(each.replace(",", "")) for each in cells[2:5]]
        assert name in cells[0] and numbers == [found["mutants"] - survived, found["mutants"], found["made"]]
        assert cells[1] == f"{1 - survived / found['mutants']:.0%}"
    text = (page.ROOT / f"docs/{page.PAGE}.md").read_text("utf-8")
    assert all(mark in text for mark in (page.MARK, page.MUTANTS_MARK, page.PLACES_MARK, page.VISITORS_MARK))
    long = figures["long"]
    for row, when in zip(
        page.visitors_table().splitlines()[-2:], ("after the first rounds", "at the end"), strict=True
    ):
        numbers = [int(each.strip().replace(",", "")) for each in row.strip("|").split("|")[1:]]
        left = [long[when][each] for each in ("threads", "files", "sockets", "children", "folders", "mb")]
        assert numbers == [round(each) for each in left]


def test_mutants_are_counted_by_file():
    from tests.trust.mutants import counted, made

    said = """
    apviz.rules.x_rule_named__mutmut_1: killed
    apviz.rules.xǁCyclicǁbegin__mutmut_2: survived
    apviz.gp.training.gradient.x_step_system__mutmut_3: not checked
    apviz.gp.training.gradient.x_step_system__mutmut_4: timeout
    """
    found = {file: counted(names) for file, names in made(said).items()}
    assert found == {
        "apviz/rules.py": {"made": 2, "mutants": 2, "how": {"killed": 1, "survived": 1}},
        "apviz/gp/training/gradient.py": {"made": 2, "mutants": 0, "how": {}},
    }
