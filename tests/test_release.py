"""A release: the workflows, the versions that the package declares, and the words of CHANGELOG.md."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
TEXTS = {path.name: path.read_text("utf-8") for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}
# YAML 1.1 reads the key `on` as true
WORKFLOWS = {name: {("on" if key is True else key): part for key, part in yaml.safe_load(text).items()}
             for name, text in TEXTS.items()}  # fmt: skip

_spec = importlib.util.spec_from_file_location("release", ROOT / ".github/release.py")
assert _spec is not None and _spec.loader is not None
release = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(release)


def classified(prefix: str) -> list[str]:
    return [each.removeprefix(prefix) for each in PROJECT["classifiers"] if each.startswith(prefix)]


def test_every_action_is_named_by_commit_with_its_version_as_a_comment():
    for name, text in TEXTS.items():
        for used in re.findall(r"uses: (.*)", text):
            assert re.fullmatch(r"\./.github/workflows/\w+\.yml|[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), name


def test_an_action_has_one_version_in_all_workflows():
    used = {line for text in TEXTS.values() for line in re.findall(r"uses: (\S+@.*)", text)}
    assert len({line.partition("@")[0] for line in used}) == len(used)


def test_workflows_that_the_release_calls_are_callable_and_do_not_cancel_each_other():
    called = [job["uses"].rpartition("/")[2] for job in WORKFLOWS["release.yml"]["jobs"].values() if "uses" in job]
    assert called
    for name in called:
        assert "workflow_call" in WORKFLOWS[name]["on"]
        # `github.workflow` is the caller's
        assert "github.workflow" not in WORKFLOWS[name]["concurrency"]["group"]


def test_nothing_is_published_before_the_tests_and_every_file_are_there():
    jobs = WORKFLOWS["release.yml"]["jobs"]
    assert set(jobs["publish"]["needs"]) == {"tests", "install", "source", "wheels"}
    assert jobs["release"]["needs"] == jobs["site"]["needs"] == "publish"
    assert "tag" in jobs["publish"]["if"]


def test_pythons_and_systems_of_the_classifiers_are_those_that_the_package_is_installed_on():
    matrix = WORKFLOWS["install.yml"]["jobs"]["install"]["strategy"]["matrix"]
    assert classified("Programming Language :: Python :: 3.") == [each.removeprefix("3.") for each in matrix["python"]]
    assert PROJECT["requires-python"] == f">={matrix['python'][0]}"
    systems = {"ubuntu": "POSIX :: Linux", "macos": "MacOS", "windows": "Microsoft :: Windows"}
    assert sorted(classified("Operating System :: ")) == sorted(systems[each.split("-")[0]] for each in matrix["os"])
    lowest = [each for each in matrix["include"] if each["versions"] == "lowest-direct"]
    assert {each["os"] for each in lowest} == set(matrix["os"])
    assert {each["python"] for each in lowest} == {matrix["python"][0]}


def test_every_dependency_has_a_floor():
    extras = PROJECT["optional-dependencies"]
    needed = [*PROJECT["dependencies"], *(each for name, extra in extras.items() if name != "dev" for each in extra)]
    assert [each for each in needed if not re.search(r">=\d|^apviz\[", each)] == []


def test_the_changelog_has_a_place_for_what_comes_then_releases_newest_first():
    headings = re.findall(r"^## (.*)", CHANGELOG, re.MULTILINE)
    assert headings[0] == "Unreleased" and len(headings) > 1
    releases = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) \((\d{4}-\d\d-\d\d)\)", each) for each in headings[1:]]
    order = [(tuple(map(int, each.groups()[:3])), each[4]) for each in releases if each]
    assert len(order) == len(releases) and order == sorted(order, reverse=True)


def test_the_words_of_a_release_are_its_section_alone():
    text = "## Unreleased\n\nlater\n\n## 0.2.0 (2027-01-02)\n\nnew: [a](docs/a.md)\n\n### Fixed\n\n- b\n\n"
    text += "## 0.1.0 (2026-11-28)\n\nold\n"
    words = "new: [a](https://github.com/apviz/apviz/blob/v0.2.0/docs/a.md)\n\n### Fixed\n\n- b\n"
    assert release.notes_of("v0.2.0", text) == words
    assert release.notes_of("v0.2.0rc1", text) == words.replace("v0.2.0", "v0.2.0rc1")
    assert release.notes_of("v0.1.0", text) == "old\n"


@pytest.mark.parametrize(
    ("tag", "text", "said"),
    [
        ("0.2.0", "", "a tag such as v0.2.0"),
        ("v0.2.0", "## Unreleased\n\nnew\n", "needs one heading such as: ## 0.2.0"),
        ("v0.2.0", "## 0.2.0\n\nnew\n", "needs one heading such as: ## 0.2.0"),
        ("v0.2.0", "## 0.2.0 (2027-01-02)\n\n## 0.1.0 (2026-11-28)\n\nold\n", "says nothing about 0.2.0"),
    ],
)
def test_a_release_without_its_words_is_an_error(tag, text, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        release.notes_of(tag, text)


def test_the_words_of_the_newest_release_link_only_to_files_that_exist():
    newest = re.findall(r"^## (\d\S+)", CHANGELOG, re.MULTILINE)[0]
    words = release.notes_of(f"v{newest}", CHANGELOG)
    paths = re.findall(rf"\]\({release.REPOSITORY}/blob/v{re.escape(newest)}/([^)#]+)", words)
    assert paths and [each for each in paths if not (ROOT / each).exists()] == []


def test_files_of_another_version_than_the_tag_are_rejected(tmp_path):
    for ending in (".tar.gz", "-py3-none-any.whl", "-py3-none-manylinux_2_28_x86_64.whl"):
        (tmp_path / f"apviz-0.2.0{ending}").touch()
    release.check_files("v0.2.0", tmp_path)
    (tmp_path / "apviz-0.2.0.dev3-py3-none-any.whl").touch()
    with pytest.raises(ValueError, match=re.escape("apviz-0.2.0.dev3-py3-none-any.whl")):
        release.check_files("v0.2.0", tmp_path)


def test_dependabot_updates_the_actions():
    text = (ROOT / ".github/dependabot.yml").read_text("utf-8")
    assert "github-actions" in [each["package-ecosystem"] for each in yaml.safe_load(text)["updates"]]
