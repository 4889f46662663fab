"""The pages of the notebooks in the site: with its header, search and theme, and their contents at the side."""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bs4 import BeautifulSoup
from docutils import nodes
from docutils.utils import new_document

from building.links import ROOT, of_lesson

#: pages and slides that `make notebooks` writes
WRITTEN, SLIDES = ROOT / "notebooks" / "html", ROOT / "notebooks" / "slides"
_HREF = re.compile(r'(?<=href=")(?P<path>[^"#:]+)(?P<place>#[^"]*)?(?=")')
_DATA = re.compile(r'<script type="application/json" id="figure-.*?</script>', re.DOTALL)


class Lesson(NamedTuple):
    """A notebook's page: its name, its HTML, the data of its figures, and what BeautifulSoup reads of it."""

    name: str
    body: str
    figures: str
    soup: BeautifulSoup

    @property
    def title(self) -> str:
        return str(self.soup.h1.get_text())

    @property
    def contents(self) -> str:
        """Nested lists of its headings, as Sphinx writes them for its own pages."""
        sections = "".join(
            f'<li><a href="#{each["id"]}">{each.decode_contents()}</a></li>' for each in self.soup.select("h2[id]")
        )
        return f'<ul><li><a href="#">{html.escape(self.title)}</a><ul>{sections}</ul></li></ul>'

    def document(self) -> nodes.document:
        """Its words and headings, for the search."""
        document = new_document(self.name)
        section = nodes.section("", nodes.title("", self.title))
        document += section
        for each in self.soup.select("h2[id], h3[id], p, li, pre, td"):
            if each.name in ("h2", "h3"):
                section = nodes.section("", nodes.title("", each.get_text()), ids=[each["id"]])
                document += section
            else:
                section += nodes.paragraph("", each.get_text(" "))
        return document


def _on_site(text: str, file: Path) -> str:
    return _HREF.sub(lambda match: of_lesson(match, file), text)


def read(path: Path) -> Lesson:
    """Read a page of a notebook, with its links as seen from the site."""
    text = path.read_text("utf-8")
    before, _, after = text.partition("<main>")[2].rpartition("</main>")
    body = _on_site(before, path)
    soup = BeautifulSoup(body, "html.parser")
    for each in soup.select("script, style, svg, math, .widget"):
        each.decompose()
    return Lesson(path.stem, body, "".join(_DATA.findall(after)), soup)


def _pages(app: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    if app.builder.name != "html" or not WRITTEN.is_dir():
        return
    lessons = [read(path) for path in sorted(WRITTEN.glob("[0-9]*.html"))]
    links = [{"link": f"{each.name}.html", "title": each.title} for each in lessons]
    for place, lesson in enumerate(lessons):
        name = f"lessons/{lesson.name}"
        # the search and the inventory keep only known pages
        app.env.all_docs[name], app.env.titles[name] = 0, nodes.title("", lesson.title)
        app.builder.index_page(name, lesson.document(), lesson.title)
        context = {
            "title": lesson.title, "body": lesson.body, "figures": lesson.figures, "toc": lesson.contents,
            "parents": [{"link": "../lessons.html", "title": "Lessons"}],
            "prev": links[place - 1] if place else None,
            "next": links[place + 1] if place + 1 < len(lessons) else None,
        }  # fmt: skip
        yield name, context, "lesson.html"


def _copy(app: Any, error: Exception | None) -> None:
    """Copy what the pages load; their style holds inside them only, and takes the colours of the site."""
    if error or app.builder.name != "html" or not WRITTEN.is_dir():
        return
    out = Path(app.outdir) / "lessons"
    shutil.copytree(WRITTEN, out, ignore=shutil.ignore_patterns("*.html", "page.css", "kit"), dirs_exist_ok=True)
    shutil.copytree(WRITTEN / "kit", out / "kit", dirs_exist_ok=True)
    style = (out / "lesson.css").read_text("utf-8")
    if SLIDES.is_dir():
        slides = Path(shutil.copytree(SLIDES, Path(app.outdir) / "slides", dirs_exist_ok=True))
        for page in slides.glob("*.html"):
            page.write_text(_on_site(page.read_text("utf-8"), SLIDES / page.name), "utf-8")
    # `:where` keeps each rule as weak as on the page of a notebook alone, so that widgets look the same
    (out / "lesson.css").write_text(f":where(.lesson) {{\n{style}}}\n", "utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-collect-pages", _pages)
    app.connect("build-finished", _copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
