"""`make lint`: style, format, spelling and plain English, types, and the imports between rooms."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow  # `make lint` runs them
@pytest.mark.parametrize("check", ["ruff check .", "ruff format --check .", "codespell", "mypy", "lint-imports"])
def test_lint_passes(check):
    tool, *arguments = check.split()
    done = subprocess.run([Path(sys.executable).parent / tool, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_make_lint_runs_the_same_checks():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    mark = next(each for each in test_lint_passes.pytestmark if each.name == "parametrize")
    assert recipe.replace("\t$(BIN)/", "").splitlines() == mark.args[1]


CODESPELL = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["codespell"]
PHRASES = [line.partition("->") for line in (ROOT / ".codespell/plain_english.txt").read_text("utf-8").splitlines()]


def test_every_phrase_to_avoid_has_a_replacement_and_matches_as_one_word():
    for phrase, _, instead in PHRASES:
        assert instead.endswith(","), f"{phrase}: without a comma codespell would replace it by itself"
        assert re.findall(CODESPELL["regex"], phrase) == [phrase], f"{phrase}: add it to regex in pyproject.toml"


def test_codespell_reports_a_phrase_to_avoid_with_its_replacement(tmp_path):
    (tmp_path / "text.md").write_text("It goes on beside B.\nWe recieve it.\n")  # codespell:ignore
    command = [Path(sys.executable).parent / "codespell", "--toml", "pyproject.toml", tmp_path / "text.md"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = [line.partition(": ")[2] for line in done.stdout.splitlines()]
    assert [each.partition(" ==>")[0] for each in found] == ["goes on", "beside", "recieve"]  # codespell:ignore
    assert "continues" in found[0] and "next to" in found[1] and "receive" in found[2]


def test_every_folder_that_is_not_checked_yet_exists():
    ours = ("./apviz", "./benchmarks", "./notebooks/build/*", "./notebooks/*.ipynb", "./tests")
    paths = [each for each in CODESPELL["skip"] if each.startswith(ours)]
    assert [each for each in paths if not list(ROOT.glob(each))] == []


def test_the_repository_speaks_of_apviz_alone():
    """Tracked files contain no hosts of registries and no paths of one machine."""
    banned = ["pypi" + ".org", "python" + "hosted.org", "registry.npm" + "js.org", "deb.debian" + ".org", "/wo" + "rk/"]
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    for name in tracked.stdout.splitlines():
        path = ROOT / name
        if path.suffix in {".png", ".webp", ".gz", ".zip"} or not path.is_file():
            continue
        text = path.read_text("utf-8", errors="replace")
        assert not [word for word in banned if word in text], name
