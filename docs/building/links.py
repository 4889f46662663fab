"""Rewrite links of texts that were written for the repository, for the site.

A link to a file of the repository, relative or by its address on GitHub, leads to the page that shows the file, to a
copy of it on the site, or, for any other file, to the repository on GitHub. So one text serves both.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
REPOSITORY: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Repository"]
#: files that a page includes, and the page
PAGES = {
    "README.md": "index",
    "ARCHITECTURE.md": "architecture",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "data/README.md": "data",
    "notebooks/LECTURE.md": "lecture",
    "benchmarks/README.md": "benchmarks/index",
    "benchmarks/notes.md": "benchmarks/notes",
    "benchmarks/leaderboard/RULES.md": "benchmarks/rules",
    "SECURITY.md": "security",
}
#: pages made without Sphinx, and their place on the site
MADE = {
    f"benchmarks/results/{name}/index.html": f"benchmarks/{name}.html" for name in ("leaderboard", "referee")
}  # fmt: skip
#: addresses of files of the repository: README.md has them, so that it can be read elsewhere, on a package index say
ADDRESSES = rf"(?:{REPOSITORY}/(?:blob|tree)|{REPOSITORY.replace('github.com', 'raw.githubusercontent.com')})/main/"
#: a link or a picture of Markdown: `](target#place)`
_LINK = re.compile(rf"(?<=\]\()(?P<address>{ADDRESSES})?(?P<path>[^()\s#:]+)(?P<place>#[^()\s]*)?(?=\))")


def is_there(path: str) -> bool:
    return (ROOT / path).exists()


def page_of(path: str) -> str | None:
    """Place on the site of a file of the repository, without its ending where Sphinx writes it; None: it has none."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/") and path.endswith(".md"):
        return path.removeprefix("docs/").removesuffix(".md")
    return None


def copy_of(path: str) -> str | None:
    """Where the site has a copy of a page that Sphinx does not write."""
    if path in MADE:
        return MADE[path]
    lesson = PurePosixPath(path)
    if lesson.parent == PurePosixPath("notebooks/kit"):
        name = lesson.with_suffix(".html").name if lesson.suffix == ".md" else lesson.name
        return f"lessons/kit/{name}" if is_there(f"notebooks/html/kit/{name}") else None
    if lesson.parent == PurePosixPath("notebooks") and lesson.suffix == ".ipynb":
        place = f"lessons/{lesson.stem}.html"
        return place if is_there(f"notebooks/html/{lesson.stem}.html") else None
    return None


def on_github(path: str) -> str:
    return f"{REPOSITORY}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}"


# --- texts ------------------------------------------------------------------------------------------------------------


def rewritten(text: str, file: Path, page: str) -> str:
    """The Markdown of a file of the repository with its links as seen from a page of the site."""

    def seen(match: re.Match[str]) -> str:
        target, place = match["path"], match["place"] or ""
        found = _in_repository(ROOT / "README.md" if match["address"] else file, target)
        if found is None:
            return match[0]
        if found.endswith((".png", ".svg", ".webp")):
            return os.path.relpath(ROOT / found, ROOT / "docs" / Path(page).parent)
        if there := page_of(found):
            return os.path.relpath(f"{there}.md", Path(page).parent) + place
        if there := copy_of(found):
            return f"built:{os.path.relpath(there, Path(page).parent)}"
        return on_github(found) + place

    return _LINK.sub(seen, text)


def _in_repository(file: Path, target: str) -> str | None:
    """Path in the repository of what a link of a file leads to, where there is such a file."""
    there = Path(os.path.normpath(file.parent / target))
    return there.relative_to(ROOT).as_posix() if there.is_relative_to(ROOT) and there.exists() else None


def _on_source(app: Any, page: str, text: list[str]) -> None:
    file = Path(app.env.doc2path(page))
    if file.suffix == ".md":
        text[0] = rewritten(text[0], file, page)


def _on_include(app: Any, path: Path, page: str, text: list[str]) -> None:
    # of the page that includes, MyST says the name without its folder
    text[0] = rewritten(text[0], Path(os.path.normpath(Path(app.srcdir) / path)), app.env.docname)


# --- pages that Sphinx does not write ---------------------------------------------------------------------------------


def _copy(app: Any, error: Exception | None) -> None:
    if error or app.builder.name != "html":
        return
    for path, place in MADE.items():
        shutil.copy(ROOT / path, Path(app.outdir) / place)


def of_lesson(match: re.Match[str], file: Path) -> str:
    """A link of a lesson's page or slide to a file of the repository, as the site has it."""
    found = _in_repository(file, match["path"])
    if found == "notebooks/html/index.html":
        return "../lessons.html"
    if found is None or found.startswith(("notebooks/html/", "notebooks/slides/")):
        return match[0]
    there = f"{page}.html" if (page := page_of(found)) else copy_of(found)
    return (f"../{there}" if there else on_github(found)) + (match["place"] or "")


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _on_source)
    app.connect("include-read", _on_include)
    app.connect("build-finished", _copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
