"""The form of every notebook, checked without running it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SECTIONS = ("## What you will be able to do", "## Before you start", "## For the lecturer")


def tags(cell) -> list[str]:
    return cell.metadata.get("tags", [])


def text_of(notebook) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def prose_of(notebook) -> str:
    """Return the Markdown without code."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", text_of(notebook), flags=re.DOTALL)


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request) -> Path:
    return request.param


@pytest.fixture
def notebook(path):
    return nbformat.read(path, nbformat.NO_CONVERT)


def test_the_numbers_of_notebooks_have_no_gap_and_a_letter_marks_a_second_part():
    numbers = [path.stem.partition("-")[0] for path in NOTEBOOKS]
    whole = [number for number in numbers if number.isdigit()]
    assert whole == [f"{number:02}" for number in range(len(whole))]
    assert {number[:2] for number in numbers} == {*whole} and len({*numbers}) == len(numbers)


def test_it_is_a_valid_notebook_of_format_4_5_for_any_python_3(notebook):
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    assert "widgets" not in notebook.metadata


def test_cells_have_unique_ids_and_no_outputs(notebook):
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None, cell.source


def test_it_begins_with_a_title_and_has_the_common_first_two_and_last_sections(notebook):
    assert re.match(r"# \S", notebook.cells[0].source)
    text = text_of(notebook)
    assert len(re.findall(r"^# ", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)) == 1
    headings = re.findall(r"^##+ .*", text, re.MULTILINE)
    assert (*headings[:2], headings[-1]) == SECTIONS


def test_it_lists_three_to_five_learning_goals(notebook):
    section = text_of(notebook).partition(SECTIONS[0])[2].partition("\n#")[0]
    assert 3 <= len(re.findall(r"^[-*] ", section, re.MULTILINE)) <= 5


def test_exercises_have_a_check_and_a_hidden_solution_that_is_also_checked(path, notebook):
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    exercises = [i for i, cell in enumerate(code) if "exercise" in tags(cell)]
    solutions = [cell for cell in code if "solution" in tags(cell)]
    assert len(solutions) == len(exercises) >= (0 if path.stem.startswith("00") else 2)
    for place in exercises:
        assert re.search(r"= \.\.\.", code[place].source), code[place].source
        assert "check(" in code[place + 1].source, code[place].source
        assert "solution" in tags(code[place + 2]), code[place].source
    for cell in solutions:
        assert cell.metadata.jupyter.source_hidden is True
        assert "check(" in cell.source and "..." not in cell.source


def test_every_formula_becomes_mathml_and_every_brace_of_details_is_closed(notebook):
    from notebooks.build.pages import page

    html = page(notebook, "here")
    prose = re.sub(r"<(pre|code|script)\b.*?</\1>", "", html, flags=re.DOTALL)
    assert not re.findall(r"\$[^$<]+\$", prose)
    assert len(re.findall("<details", prose)) == len(re.findall("</details>", prose))
    # in HTML, a slash closes only these elements; for others, the following text would be inside
    closed = re.findall(r"<([a-z][a-z0-9]*)\b[^<>]*/>", re.sub(r"<math\b.*?</math>", "", prose, flags=re.DOTALL))
    assert {*closed} <= {"br", "hr", "img"}


def test_it_returns_to_the_photograph(notebook):
    assert "photograph" in text_of(notebook)


def test_its_title_asks_one_question(notebook):
    assert notebook.cells[0].source.partition("\n")[0].count("?") == 1


def test_links_lead_to_notebooks_and_files_that_exist(path, notebook):
    for link in re.findall(r"\]\(([^)\s]+)", prose_of(notebook)):
        if re.match(r"[a-z]+:|#", link):
            assert not link.startswith("http:"), link
            continue
        assert (path.parent / unquote(link.partition("#")[0])).exists(), link


def test_notebook_00_lists_all_others_in_reading_order():
    links = re.findall(r"\]\((\d\d[a-z]?-[\w-]+\.ipynb)\)", text_of(nbformat.read(NOTEBOOKS[0], nbformat.NO_CONVERT)))
    assert list(dict.fromkeys(links)) == [path.name for path in NOTEBOOKS[1:]]


def test_it_contains_no_local_path_and_no_download(notebook):
    for cell in notebook.cells:
        assert not re.search(r"/(home|root|tmp|Users|wor" + r"k)/|[A-Z]:\\", cell.source), cell.source
        if cell.cell_type == "code":
            assert not re.search(r"https?://|urlopen|requests\.|^\s*[!%]", cell.source, re.MULTILINE), cell.source


def test_only_apviz_and_its_rooms_are_imported(notebook):
    """Lessons use the public interface: `apviz`, or `apviz.<room>`."""
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert not re.findall(r"^\s*(?:from|import) apviz\.\w+\.\S+", code, re.MULTILINE)
