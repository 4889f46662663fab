"""The lecturer's kit: what is typed live works, sheets fit their paper, and solutions of the exam are right."""

from __future__ import annotations

import re

import nbformat
import numpy as np
import pytest
import scipy.linalg

from tests.notebooks.statements import ROOT, cg, prose, source_of, sweep

KIT = ROOT / "notebooks" / "kit"
HANDOUTS, EXAM, SOLUTIONS = ((KIT / f"{name}.md").read_text("utf-8") for name in ("handouts", "exam", "exam-solutions"))
TYPED = nbformat.read(KIT / "02-type-along.ipynb", nbformat.NO_CONVERT)


def flat(text: str) -> str:
    return " ".join(text.split())


# --- what is typed live -----------------------------------------------------------------------------------------------


def filled(cell: str) -> str:
    """Return a cell of the notebook whose dots are replaced by the lines of lesson 02."""
    lesson = iter(source_of("02", "algorithm" if cell == "projection" else cell).splitlines())
    lines = next(each.source for each in TYPED.cells if each.id == cell).splitlines()
    for place, line in enumerate(lines):
        if "..." in line:
            start = re.escape(line.split("...")[0].strip().rstrip(","))
            found = next(each for each in lesson if re.match(rf"\s+(?:{start or 'W.rows|R -='})", each))
            lines[place] = line[: len(line) - len(line.lstrip())] + found.strip()
    return "\n".join(lines)


def test_the_lines_of_lesson_02_complete_the_notebook_for_the_lecture():
    names: dict = {}
    for cell in TYPED.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None
            exec(compile(filled(cell.id) if "..." in cell.source else cell.source, cell.id, "exec"), names)
    assert names["epochs"] == 22 and "22 epochs" in source_of("02", "cost-words")
    goal = np.linalg.solve(names["K"], names["B"])
    assert np.linalg.norm(names["W"] - goal) < 0.05 * np.linalg.norm(goal)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # without a line CG diverges
@pytest.mark.parametrize("cell", ["projection", "cg"])
def test_an_algorithm_without_one_of_its_lines_is_not_accepted(cell):
    names: dict = {}
    for each in TYPED.cells:
        if each.id in ("imports", "system", "relative"):
            exec(each.source, names)
    lost = {"projection": "R -= K[:, rows] @ U", "cg": "P = R + np.sum(R**2, axis=0)"}[cell]
    kept = re.sub(rf"^(\s+){re.escape(lost)}.*$", r"\1pass", filled(cell), flags=re.MULTILINE)
    exec(kept, names)
    check = next(each.source for each in TYPED.cells if each.id == f"check-{cell}")
    with pytest.raises(AssertionError):
        exec(check, names)


# --- sheets -----------------------------------------------------------------------------------------------------------


def test_there_is_a_handout_for_each_lecture_with_its_homework():
    sheets = HANDOUTS.split("\n---\n")
    lectures = (ROOT / "notebooks" / "LECTURE.md").read_text("utf-8")
    plan = re.findall(r"^## \w+ lecture: .*?Homework: the exercises of (.*?)\.", lectures, re.M | re.S)
    assert len(sheets) == 4 and len(plan) == 3
    for sheet, lessons in zip(sheets, plan, strict=False):
        assert f"exercises of lessons {lessons}" in flat(sheet)


def test_sheets_are_pages_without_a_network_whose_formulas_are_mathml(tmp_path):
    from notebooks.build.kit import write_kit

    write_kit(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "handouts.html", "exam.html", "exam-solutions.html", "02-type-along.ipynb",
    }  # fmt: skip
    for path in tmp_path.glob("*.html"):
        text = path.read_text("utf-8")
        assert "<math" in text and not re.search(r"\$|https?://(?!www\.w3\.org)|<script|src=", text), path


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sheets"), [("handouts", 4), ("exam", 1), ("exam-solutions", 2)])
def test_a_handout_is_one_page_of_a4_and_the_exam_too(name, sheets, browser, tmp_path):
    from notebooks.build.kit import write_kit

    pypdf = pytest.importorskip("pypdf")
    write_kit(tmp_path / "kit")
    tab = browser.new_page()
    tab.goto((tmp_path / "kit" / f"{name}.html").as_uri())
    tab.pdf(path=tmp_path / "sheet.pdf", prefer_css_page_size=True)
    tab.close()
    pages = pypdf.PdfReader(tmp_path / "sheet.pdf").pages
    assert len(pages) <= sheets and all(float(page.mediabox.height) == pytest.approx(842, abs=1) for page in pages)
    if name == "handouts":
        assert all(f"Lecture {i}" in page.extract_text() for i, page in enumerate(pages, start=1)) and len(pages) == 4


# --- the exam ---------------------------------------------------------------------------------------------------------


def test_the_points_of_the_exam_add_up_and_each_solution_has_those_of_its_problem():
    points = re.findall(r"^\*\*(\d)\. .*?\((\d+) points\)\.\*\*(.*?)(?=^\*\*\d\.|\Z)", SOLUTIONS, re.M | re.S)
    asked = re.findall(r"^\*\*(\d)\. .*?\((\d+) points\)\.\*\*", EXAM, re.M)
    assert [(number, most) for number, most, _ in points] == asked
    assert sum(int(most) for _, most in asked) == 60 and "60 points" in EXAM
    for number, most, text in points:
        assert sum(map(int, re.findall(r"\((\d+)\)(?=\s|$)", text))) == int(most), number


def test_the_projection_and_the_angle_of_the_exam():
    K, b = np.array([[1, 0.5], [0.5, 1]]), np.array([1.0, 0.0])
    goal = np.linalg.solve(K, b)
    assert goal == pytest.approx([4 / 3, -2 / 3]) and b @ goal == pytest.approx(4 / 3)
    w = sweep(K, b, np.zeros(2), [[0]])
    left = (w - goal) @ K @ (w - goal)
    assert w == pytest.approx([1, 0]) and left / (b @ goal) == pytest.approx(0.25) and "a share of 25%" in SOLUTIONS
    assert b - K @ w == pytest.approx([0, -0.5])
    root = scipy.linalg.cholesky(K, lower=True)
    assert np.degrees(scipy.linalg.subspace_angles(root[:1].T, root[1:].T)[0]) == pytest.approx(60)
    # of any start: the norm of k sweeps, in coordinates in which the norm of K is Euclidean
    one, two = (np.eye(2) - np.outer(row, row) / (row @ row) for row in root)
    norms = [np.linalg.norm(np.linalg.matrix_power(two @ one, k), 2) for k in range(1, 13)]
    assert np.diff(np.log(norms)) == pytest.approx(np.log(0.25)) and norms[9] > 1e-6 > norms[10]
    assert "from $k = 11$ on" in flat(SOLUTIONS)


def test_the_numbers_of_the_other_problems_of_the_exam():
    assert np.exp(-1106 / 120) <= 1e-4 < np.exp(-1105 / 120) and "after 1,106 epochs" in flat(SOLUTIONS)
    assert 0.05**5 < 1e-6 < 0.05**4 == pytest.approx(6.3e-6, rel=0.01) and "from $p = 5$ on" in SOLUTIONS
    values = np.repeat([1.0, 5.0, 20.0], [998, 1, 1])
    b = np.random.default_rng(0).standard_normal(1000)
    iterates = cg(np.diag(values), b, 3)
    errors = [np.sqrt(values) * (b / values - w) for w in iterates]
    assert np.linalg.norm(errors[3]) < 1e-10 * np.linalg.norm(errors[0]) < 1e-8 * np.linalg.norm(errors[2])
    assert 1.5**2 == 2.25 and "2.25 times the memory" in SOLUTIONS


def test_the_handouts_repeat_numbers_of_the_lessons():
    for number, lesson in (("0.945", "01b"), ("0.712", "01b"), ("85°", "01"), ("30°", "01")):
        assert number in HANDOUTS and number in prose(lesson)


def test_the_bound_of_the_handouts_for_passes_is_that_of_a_power():
    for drift, tol in ((0.03, 1e-8), (0.3, 1e-8), (0.05, 1e-6)):
        passes = int(np.ceil(np.log(1 / tol) / np.log(1 / drift)))
        assert drift**passes <= tol < drift ** (passes - 1)
