"""The paper for JOSS: its form, its references, and its numbers, which are those of `benchmarks/results`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parent.parent
_, HEADER, BODY = (ROOT / "paper.md").read_text("utf-8").split("---\n", 2)
PROSE = " ".join(BODY.split())
BIBLIOGRAPHY = (ROOT / "paper.bib").read_text("utf-8")


def result(name: str):
    return json.loads((ROOT / "benchmarks/results" / name).read_text("utf-8"))


def test_the_paper_has_the_sections_and_the_length_that_the_journal_asks_for():
    assert re.findall(r"^# (.+)$", BODY, re.MULTILINE) == [
        "Summary", "Statement of need", "State of the field", "Software design", "Research impact statement",
        "AI usage disclosure", "Acknowledgements", "References",
    ]  # fmt: skip
    assert 750 <= len(BODY.split()) <= 1750


def test_the_authors_are_those_of_the_citation_file():
    header, citation = yaml.safe_load(HEADER), yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    archive = json.loads((ROOT / ".zenodo.json").read_text("utf-8"))
    names = [each["name"] for each in citation["authors"]]
    assert [each["name"] for each in header["authors"]] == [each["name"] for each in archive["creators"]] == names
    assert {each["affiliation"] for each in header["authors"]} == {each["index"] for each in header["affiliations"]}
    assert archive["license"] == citation["license"]


def test_every_reference_is_cited_and_every_citation_has_a_reference():
    keys = re.findall(r"^@\w+\{(\w+),", BIBLIOGRAPHY, re.MULTILINE)
    assert len(set(keys)) == len(keys) and set(re.findall(r"@([a-z]+\d{4})", BODY)) == set(keys)


def test_every_picture_of_the_paper_exists():
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", BODY)
    assert pictures and all((ROOT / each).is_file() for each in pictures)


def test_the_speed_is_that_of_the_seven_systems():
    rows = [result(f"solvers/{path.name}") for path in (ROOT / "benchmarks/results/solvers").glob("*rhs16.json")]
    reached = [{name: cell["reached"].get("0.01", {}) for name, cell in row["cells"].items()} for row in rows]
    auto = [each["auto"]["seconds"] for each in reached]
    assert len(auto) == 7 and f"after {min(auto):.1f} to {max(auto):.1f} s on two cores" in PROSE
    exact = [each["Cholesky"]["seconds"] / own for each, own in zip(reached, auto, strict=True)]
    assert f"Cholesky {min(exact):.1f} to {max(exact):.0f} times" in PROSE
    # tests/test_readme.py compares the same sentence with the results
    (others,) = re.findall(r"best other CG takes ([\d.]+ to [\d.]+) times as long", readme())
    assert f"The best other conjugate gradients take {others} times as long" in PROSE


def readme() -> str:
    return " ".join((ROOT / "README.md").read_text("utf-8").split())


def test_the_leaderboard_is_the_one_of_the_benchmarks():
    pytest.importorskip("pandas")
    from benchmarks.leaderboard.__main__ import FOLDER
    from benchmarks.leaderboard.readme import section

    said = " ".join(section(FOLDER).split())
    (published, slower), (hard, much_slower) = re.findall(
        r"(\d+) of \1 tasks of the \w+ family, in ([\d.]+) times", said
    )
    (worst,) = re.findall(r"at worst ([\d.]+) times", said)
    assert f"solves all {int(published) + int(hard)} tasks" in PROSE
    assert f"{slower} times the seconds of the best method on the {published} tasks" in PROSE
    assert f"and {much_slower} times on the {hard} tasks that were chosen to be hard" in PROSE
    assert f"at worst it takes {worst} times as long" in PROSE


def test_the_million_points_were_solved_in_that_time_and_memory():
    earth = result("maps.json")["results"]["earth 1000000"]["automatic"]
    assert earth["n"] == 1_000_000 and earth["residual"] <= earth["tol"] == 0.01 and earth["threads"] == 2
    assert f"solved to 0.01 in {earth['wall']:.0f} s and {earth['peak GB']:g} GB on two cores" in PROSE


def test_diagnoses_and_stated_accuracies_were_right_that_often():
    causes = result("causes.json")["results"]["seed 100"]
    assert f"Of {causes['causes']} systems with one known defect" in PROSE
    assert f"the diagnosis names the defect in {causes['right']}, " in PROSE
    assert causes["false alarms"] == 0 and f"no false alarm on {causes['healthy']} healthy ones" in PROSE
    accuracy = result("predictions.json")["results"]["summary"]
    held = f"holds for {accuracy['held']:.1%} of the means and {accuracy['sd_held']:.1%} of the standard deviations"
    assert f"On {accuracy['systems']} random systems" in PROSE and held in PROSE
    truth = result("trust.json")["truth"]
    assert not truth["wrong"] and f"A campaign of {truth['cases']:,} random solves found no number" in PROSE
