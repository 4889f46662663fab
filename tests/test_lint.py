"""`make lint`: style, format and types."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("check", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]], ids=" ".join)
def test_lint_passes(check):
    done = subprocess.run([sys.executable, "-m", *check], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


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


def test_arrows_between_rooms_point_one_way():
    """kernels → operators → preconditioners → solvers; no solver imports tracing; plots know only traces."""
    forbidden = {
        "kernels.py": ("operators", "solvers", "tracing", "plots"),
        "operators": ("solvers", "preconditioners", "tracing", "plots", "datasets", "partitions", "rules"),
        "solvers": ("tracing", "plots", "report", "datasets", "comparison"),
        "preconditioners": ("solvers", "tracing", "plots", "report", "datasets"),
        "tracing": ("plots", "report", "datasets", "comparison"),
        "plots": ("solvers", "operators", "kernels", "spectrum", "report", "datasets", "gp", "experiments"),
        "datasets": ("solvers", "operators", "tracing", "plots", "report"),
        "hyperparameters.py": ("solvers", "gp", "datasets"),
        "lanczos.py": ("solvers", "gp", "tracing"),
        "gp": ("plots", "report", "datasets", "comparison", "experiments"),
        "diagnosis.py": ("solvers", "gp", "plots", "report"),
        "experiments/published": ("experiments.setting", "experiments.measuring", "experiments.catalogue"),
        "experiments/setting": ("experiments.measuring", "experiments.catalogue"),
        "experiments/measuring": ("experiments.catalogue",),
    }
    for room, others in forbidden.items():
        place = ROOT / "apviz" / room
        for path in [place] if place.is_file() else place.rglob("*.py"):
            for line in path.read_text("utf-8").splitlines():
                if line.startswith(("from apviz", "import apviz")):
                    assert not any(f"apviz.{other}" in line for other in others), f"{path}: {line}"


#: which rooms of the dashboard each of them may know; all may know those without a name
DASHBOARD = {
    "": (),
    "charts": (),
    "runs": (),
    "settings": ("runs",),
    "jobs": ("runs", "settings"),
    "diagnosis": ("settings",),
    "pages": ("charts", "runs", "settings", "jobs", "diagnosis"),
    "frame": ("charts", "runs", "settings", "jobs", "pages"),
}
#: what pages have in common; every other folder or file of `pages` is a page
COMMON = ("base", "shared", "solving_page")


def imported(source: str) -> set[str]:
    """The modules of apviz that Python code imports anywhere in it, also within a function."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith(("apviz", "."))}


def may_import(path: str, name: str) -> bool:
    """Whether a file may import a module; `path` is that below `apviz/dashboard`."""
    parts = name.split(".")
    if parts[:2] != ["apviz", "dashboard"]:
        return parts[0] == "apviz"
    room, inside = path.split("/", 1) if "/" in path else ("", path)
    other = parts[2] if parts[2:] else ""
    if other != "pages" or room != "pages":
        return other in ("limits", "one_way", "plain_text", *DASHBOARD[room]) or (other == room and room != "")
    page = inside.split("/")[0].removesuffix(".py")
    return page == "__init__" or parts[3:4] in [[each] for each in (page, *COMMON)]


def wrong_in_dashboard(path: str, source: str) -> list[str]:
    """The imports that a file of the dashboard must not have."""
    return [name for name in imported(source) if not may_import(path, name)]


def test_arrows_between_the_rooms_of_the_dashboard_point_one_way():
    place = ROOT / "apviz" / "dashboard"
    rooms = {path.name for path in place.iterdir() if any(path.glob("*.py"))}
    assert rooms == {room for room in DASHBOARD if room}
    for path in place.rglob("*.py"):
        # the door of the dashboard leads to its frame
        if path != place / "__init__.py":
            name = path.relative_to(place).as_posix()
            assert wrong_in_dashboard(name, path.read_text("utf-8")) == [], name


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("charts/chart.py", "from apviz.dashboard.runs.trainings import Trainings"),
        ("jobs/job.py", "import apviz.dashboard.pages.shared"),
        ("settings/upload.py", "def late():\n    from apviz.dashboard import pages"),
        ("diagnosis/rerun.py", "from ..pages import PAGES"),
        ("limits.py", "from apviz.dashboard.jobs.job import Gate"),
        ("pages/compare/page.py", "from apviz.dashboard.pages.runs.page import Runs"),
        ("pages/shared.py", "from apviz.dashboard.pages.compare.page import Compare"),
        ("pages/base.py", "from apviz.dashboard.frame import address"),
        ("pages/runs/page.py", "from apviz.dashboard import serve"),
    ],
)
def test_an_arrow_that_points_the_other_way_is_found(path, line):
    assert len(wrong_in_dashboard(path, line)) == 1
    assert wrong_in_dashboard(path, "from apviz.dashboard.limits import Limits\nfrom apviz import plots") == []
