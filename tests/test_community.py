"""The files that readers, archives and GitHub look for: their links lead somewhere, and their badges are true."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from urllib.parse import unquote

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
FORMS = [
    path for path in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")) if path.stem not in ("config", "idea")
]


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@pytest.mark.parametrize("name", ["CODE_OF_CONDUCT.md", "SUPPORT.md", "SECURITY.md"])
def test_every_relative_link_leads_to_a_file(name):
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text(name))
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_readme_leads_to_support_the_code_of_conduct_the_citation_and_the_paper():
    for name in ("SUPPORT.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "CONTRIBUTING.md", "CITATION.cff", "paper.md"):
        assert f"({PROJECT['urls']['Repository']}/blob/main/{name})" in text("README.md"), name


def test_the_badges_are_true():
    links = dict(re.findall(r"^\[([\w-]+)\]: (\S+)$", text("README.md"), re.MULTILINE))
    shown = {name: unquote(links[f"{name}-badge"]) for name in ("tests", "python", "licence")}
    assert shown["licence"].endswith(f"/licence-{PROJECT['license'].replace('-', ' ')}-blue")
    assert shown["python"].endswith(f"/python-{PROJECT['requires-python'].replace('>=', '≥ ')}-blue")
    (workflow,) = re.findall(r"/actions/workflows/([\w.]+)/badge\.svg\?branch=main$", shown["tests"])
    assert links["tests"].endswith(f"/actions/workflows/{workflow}")
    assert yaml.safe_load(text(f".github/workflows/{workflow}"))["name"] == "tests"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_every_form_for_a_problem_asks_for_the_output_of_the_doctor(path):
    form = yaml.safe_load(path.read_text("utf-8"))
    asked = {field["id"]: field for field in form["body"] if "id" in field}
    assert len(asked) == len([field for field in form["body"] if field["type"] != "markdown"])
    assert "`apviz doctor --no-keops`" in asked["doctor"]["attributes"]["label"]
    assert asked["doctor"]["validations"]["required"] and asked["doctor"]["attributes"]["render"] == "text"


def test_the_doctor_has_the_option_that_the_forms_name():
    from typer.main import get_command

    from apviz.cli import app

    command = get_command(app).get_command(None, "doctor")
    assert "--no-keops" in {name for each in command.params for name in each.secondary_opts}


def test_archives_and_citations_describe_the_same_package():
    archive, citation = json.loads(text(".zenodo.json")), yaml.safe_load(text("CITATION.cff"))
    assert archive["title"] == citation["title"] == PROJECT["name"]
    assert archive["keywords"] == PROJECT["keywords"] and set(citation["keywords"]) <= set(PROJECT["keywords"])
    assert archive["license"] == citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Repository"]
    (paper,) = archive["related_identifiers"]
    assert paper["identifier"] == citation["preferred-citation"]["url"]
    assert citation["abstract"] in archive["description"]
