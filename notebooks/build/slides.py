"""Write slides of the notebooks, divided as nbconvert does: `make notebooks`. They open from a disk.

The metadata of a cell (`slideshow`) says whether it is on a slide, as Jupyter writes and nbconvert reads it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import jinja2
from nbconvert.exporters.slides import _RevealMetadataPreprocessor
from nbformat import NotebookNode

from notebooks.build.figures import Figures
from notebooks.build.pages import TEMPLATES, Exporter, exported, title, write_shared

#: reveal.js 5.2.1 and its view for the speaker, from its package in the npm registry (MIT licence, in the same folder)
REVEAL = Path(__file__).with_name("reveal")
#: start of the part of the first cell that slides leave out
FOR_READERS = "\n## What you will be able to do"


def write_slides(notebooks: Sequence[tuple[str, NotebookNode]], folder: Path) -> None:
    """Write the slides of executed notebooks, given with their names in reading order, into a new folder.

    Leave out notebooks without a slide.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_shared(folder)
    for file in (REVEAL / "reveal.js", REVEAL / "notes.js", TEMPLATES / "slides.css", TEMPLATES / "fit.js"):
        shutil.copy(file, folder)
    # our widgets use the class .controls too
    text = (REVEAL / "reveal.css").read_text("utf-8").replace(".reveal .controls", ".reveal>.controls")
    (folder / "reveal.css").write_text(text, "utf-8")
    shown = [(name, notebook) for name, notebook in notebooks if on_slides(notebook)]
    for name, notebook in shown:
        (folder / f"{name}.html").write_text(slides(notebook, name), "utf-8")
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True)
    entries = [{"name": name, "title": title(notebook), "aims": []} for name, notebook in shown]
    text = environment.get_template("contents.html.jinja").render(entries=entries, slides=True)
    (folder / "index.html").write_text(text, "utf-8")


def slides(notebook: NotebookNode, name: str) -> str:
    """Return the slides of an executed notebook as a page.

    Raises:
        ValueError: no cell is on a slide; a formula cannot become MathML.
    """
    chosen = deepcopy(notebook)
    chosen.cells = on_slides(chosen)
    if not chosen.cells:
        raise ValueError(f"{name} has no cell on a slide: give one the slide type 'slide'")
    chosen.cells[0].source = chosen.cells[0].source.partition(FOR_READERS)[0]
    return exported(SlidesExporter(), chosen, {"name": name, "title": title(notebook), "before": "", "after": ""})


def on_slides(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the cells on slides and the speaker notes; none if there are only notes."""
    types = {cell.id: cell.metadata.get("slideshow", {}).get("slide_type", "skip") for cell in notebook.cells}
    cells = [cell for cell in notebook.cells if types[cell.id] != "skip"]
    return cells if any(types[cell.id] != "notes" for cell in cells) else []


class SlidesExporter(Exporter):
    """Exporter of pages whose sections reveal.js shows one at a time."""

    template_name = "apviz-slides"
    extra_template_paths = [str(TEMPLATES)]  # noqa: RUF012
    preprocessors = [Figures, _RevealMetadataPreprocessor]  # noqa: RUF012
