"""The build runs notebooks, and finds everything that goes wrong in one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("nbclient", reason="the notebooks need JupyterLab: pip install 'apviz[notebook]'")

from notebooks.build.__main__ import main
from notebooks.build.pages import write_pages
from notebooks.build.running import Ran, problems_of, run
from tests.notebooks.making import made, written

ROOT = Path(__file__).resolve().parent.parent.parent
#: the one that is opened first; `make notebooks` runs all
FIRST = "00-start-here"

THREAD = "import threading\nthreading.Thread(target=lambda: 1 / 0).start()"
TASK = """
import asyncio
async def late():
    await asyncio.sleep(0.1)
    raise KeyError("late")
asyncio.create_task(late());
"""
CALLBACK = "get_ipython().events.register('post_run_cell', lambda result: 1 / 0)"


def ran(paths: list[Path], timeout: float = 120) -> dict[str, Ran]:
    async def all_of_them() -> list[Ran]:
        return [each async for each in run(paths, timeout=timeout, at_once=2)]

    return {each.path.stem: each for each in asyncio.run(all_of_them())}


@pytest.mark.slow
def test_errors_are_found_also_where_the_cell_had_returned_before_and_a_timeout_ends_a_notebook(tmp_path):
    cells = {"fine": "print(6 * 7)", "raises": "1 / 0", "thread": THREAD, "task": TASK, "callback": CALLBACK}
    paths = [written(tmp_path / f"{name}.ipynb", source, "2") for name, source in cells.items()]
    found = ran(paths)
    assert found["fine"].problems == () and found["fine"].notebook.cells[1].outputs[0].text == "42\n"
    assert len(found["fine"].notebook.cells) == 3 and found["fine"].seconds > 0
    for name in ("raises", "thread", "callback"):
        assert "ZeroDivisionError" in "".join(found[name].problems), name
    assert "late" in "".join(found["task"].problems)
    (slow,) = ran([written(tmp_path / "slow.ipynb", "import time; time.sleep(60)")], timeout=3).values()
    assert slow.problems == ("it did not end within 3 seconds",)


def output(**data: str):
    return nbformat.v4.new_output("display_data", {key.replace("_", "/"): value for key, value in data.items()})


def test_a_solution_must_be_checked_and_right():
    notebook = made(("solution", "check(1, 2)"), ("solution", "check(2, 2)"), ("solution", "2"))
    for cell, said in zip(notebook.cells[1:], ("✗ **Not yet.**", "✓ **Right.**", "2"), strict=True):
        cell.execution_count, cell.outputs = 1, [output(text_markdown=said)]
    first, second = problems_of(notebook)
    assert first.startswith("cell 1") and second.startswith("cell 3")


def test_a_widget_must_have_what_stands_in_its_place_and_every_cell_must_run():
    notebook = made("slider", "never")
    view = nbformat.v4.new_output("display_data", {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}})
    notebook.cells[1].execution_count, notebook.cells[1].outputs = 1, [view]
    missing, unrun = problems_of(notebook)
    assert "without a static output" in missing and "did not run" in unrun


def test_the_build_writes_nothing_and_says_so_when_a_notebook_fails(tmp_path, capsys):
    paths = [str(written(tmp_path / "bad.ipynb", "1 / 0"))]
    assert main([*paths, "--to", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "bad.ipynb: " in said.out and "FAILED" in said.out and "ZeroDivisionError" in said.err
    assert not (tmp_path / "html").exists() and not (tmp_path / "slides").exists()


@pytest.mark.slow
def test_the_notebook_that_is_opened_first_runs():
    (done,) = ran([ROOT / f"notebooks/{FIRST}.ipynb"]).values()
    assert done.problems == ()


@pytest.mark.slow
def test_all_notebooks_run_in_less_than_two_minutes_each_and_their_pages_draw_every_figure(tmp_path, request):
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    done = ran(paths, timeout=300)
    for each in done.values():
        assert each.problems == () and each.seconds < 120, each.path.name
    write_pages([(path.stem, done[path.stem].notebook) for path in paths], tmp_path / "html")
    problems, asked = [], []
    # only now: while a browser is driven from here, no other event loop runs
    browser = request.getfixturevalue("browser")
    tab = browser.new_page(viewport={"width": 1200, "height": 900})
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    tab.on("request", lambda request: asked.append(request.url))
    for path in paths:
        tab.goto((tmp_path / f"html/{path.stem}.html").as_uri())
        for folded in tab.locator("details").all():
            folded.evaluate("each => { each.open = true; }")
        for figure in tab.locator(".figure").all():
            figure.scroll_into_view_if_needed()
            figure.locator(".main-svg").first.wait_for()
    tab.close()
    assert problems == [] and asked and not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
