"""Write the lecturer's kit: handouts and an exam to print, and the notebook for what is typed live."""

from __future__ import annotations

import shutil
from pathlib import Path

import jinja2

from notebooks.build.pages import TEMPLATES, html

KIT = Path(__file__).resolve().parent.parent / "kit"


def write_kit(folder: Path) -> None:
    """Write each text of the kit as a page that prints on A4, and copy its notebooks, into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in KIT.glob("*.md"):
        (folder / f"{path.stem}.html").write_text(sheets(path.read_text("utf-8")), "utf-8")
    for path in KIT.glob("*.ipynb"):
        shutil.copyfile(path, folder / path.name)


def sheets(text: str) -> str:
    """Return Markdown as a page; a line `---` begins a new sheet of paper."""
    parts = [html(part) for part in text.split("\n---\n")]
    title = text.partition("\n")[0].removeprefix("# ")
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True)
    return environment.get_template("sheets.html.jinja").render(title=title, sheets=parts)
