"""`make lint`: style, format, types and which room knows which."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("check", ["ruff check .", "ruff format --check .", "mypy", "lint-imports"])
def test_lint_passes(check):
    tool, *arguments = check.split()
    done = subprocess.run([Path(sys.executable).parent / tool, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_make_lint_runs_the_same():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    mark = next(each for each in test_lint_passes.pytestmark if each.name == "parametrize")
    assert recipe.replace("\t$(BIN)/", "").splitlines() == mark.args[1]


def test_the_repository_speaks_of_apviz_alone():
    """No registry hosts and no machine paths in what git tracks."""
    banned = ["pypi" + ".org", "python" + "hosted.org", "registry.npm" + "js.org", "deb.debian" + ".org", "/wo" + "rk/"]
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    for name in tracked.stdout.splitlines():
        path = ROOT / name
        if path.suffix in {".png", ".gz"} or not path.is_file():
            continue
        text = path.read_text("utf-8", errors="replace")
        assert not [word for word in banned if word in text], name
