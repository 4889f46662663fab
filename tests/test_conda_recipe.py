"""The conda recipe requires what the package requires."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: names of packages that differ on conda-forge
NAMES = {"torch": "pytorch"}


def named(requirement: str) -> tuple[str, str]:
    name, versions = re.fullmatch(r"([\w-]+)\s*(.*)", requirement).groups()
    return NAMES.get(name, name), versions


@pytest.fixture(scope="module")
def recipe():
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text("utf-8"))


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_the_conda_recipe_has_the_requirements_of_the_package(recipe, project):
    python, *others = recipe["requirements"]["run"]
    assert dict(map(named, others)) == dict(map(named, project["project"]["dependencies"]))
    assert python == "python >=${{ python_min }}"
    assert project["project"]["requires-python"] == f">={recipe['context']['python_min']}"


def test_the_conda_recipe_builds_with_the_packages_of_the_build(recipe, project):
    needed = set(map(named, project["build-system"]["requires"]))
    assert needed < {named(each) for each in recipe["requirements"]["host"] if "${{" not in each}


def test_the_files_that_the_conda_recipe_tests_with_exist(recipe):
    files = [name for test in recipe["tests"] for name in test.get("files", {}).get("source", [])]
    assert files and all((ROOT / name).exists() for name in files)
