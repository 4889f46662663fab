"""Exercises on a page, in a browser without Python: the same verdicts as in the notebook."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

pytest.importorskip("nbconvert", reason="the notebooks need JupyterLab: pip install 'apviz[notebook]'")

import nbformat

from apviz.widgets import check
from apviz.widgets.exercise import EXERCISE, MOST_TYPED
from notebooks.build.pages import NO_PYTHON, TEMPLATES, page, write_shared
from tests.notebooks.making import made

MISTAKES = {"You forgot the ½.": 2 / 3, "That is for two blocks.": 0.4}


def shown_by(answer: Any, right: Any, monkeypatch: pytest.MonkeyPatch, **how: Any) -> Any:
    """Return what a check displays."""
    seen: list[Any] = []
    monkeypatch.setattr("apviz.widgets.exercise.display", lambda shown, raw=False: seen.append(shown))
    check(answer, right, **how)
    return seen[0]


def exercise(right: Any, monkeypatch: pytest.MonkeyPatch, **how: Any) -> dict[str, Any]:
    return json.loads(json.dumps(shown_by(..., right, monkeypatch, hint="Think.", **how)[EXERCISE]))


@pytest.fixture(scope="module")
def judge(browser):
    """Return the function of the page that judges a typed answer."""
    tab = browser.new_page()
    tab.add_script_tag(path=TEMPLATES / "exercise.js")
    yield lambda cases: tab.evaluate("(cases) => cases.map(([exercise, typed]) => judge(exercise, typed))", cases)
    tab.close()


def typed_answers(right: float) -> list[str]:
    """Return a number written in many ways, some of them rounded, some wrong."""
    ways = [f"{right:.{digits}g}" for digits in (1, 2, 3, 5, 17)] + [f"{right:.{digits}f}" for digits in (0, 1, 3, 8)]
    wrong = [-right, 2 * right, right / 2, right**2, abs(right) ** 0.5, 1 / right, 1 - right, 100 * right, right + 0.3]
    return ways + [f"{each:.12g}" for each in wrong] + [f"{right * 1.004:.3g}", f" {right:.4g} ", "1/3", "-2/7", "many"]


def test_a_page_judges_numbers_as_the_notebook_does(judge, monkeypatch):
    draw = np.random.default_rng(0)
    rights = [1 / 12, 40.0, 0.0, 2 / 7, -1.0, *(draw.choice([-1, 1], 25) * 10 ** draw.uniform(-7, 4, 25)).tolist()]
    cases = [(right, typed) for right in rights for typed in (typed_answers(right) if right else ["0", "0.1", "1e-9"])]
    found = judge([[exercise(right, monkeypatch, mistakes=MISTAKES), typed] for right, typed in cases])
    for (right, typed), (is_right, why) in zip(cases, found, strict=True):
        said = shown_by(typed, right, monkeypatch, hint="Think.", mistakes=MISTAKES).data
        assert is_right == ("✓" in said), (right, typed, why, said)
        assert typed == "many" or why in said, (right, typed, why, said)
    assert sum(is_right for is_right, _ in found) > 100 and len({why for _, why in found}) > 20


def test_a_page_judges_short_arrays_as_the_notebook_does(judge, monkeypatch):
    right = np.array([1 / 3, 0.5, -2.0])
    answers = [["1/3", "0.5", "-2"], ["0.33", "0.5", "-2"], ["0.3", "0.5", "-2"], ["0.33", "0.5", "-2.5"],
               ["-0.3333333", "-0.5", "2"], ["0.333", "0.50", "-2.0"]]  # fmt: skip
    asked = exercise(right, monkeypatch)
    found = judge([[asked, f"[{', '.join(each)}]"] for each in answers])
    said = [shown_by(each, right, monkeypatch, hint="Think.").data for each in answers]
    verdicts = [is_right for is_right, _ in found]
    assert verdicts == ["✓" in each for each in said] == [True, True, False, False, False, True]
    assert found[4][1] == "Its sign is wrong." and found[3][1] == "Number 3 is too small."
    assert judge([[asked, "1 2"]])[0] == [False, "Give 3 numbers, with commas between them."]


def test_a_page_judges_texts_and_truths_as_the_notebook_does(judge, monkeypatch):
    asked = exercise("left", monkeypatch, mistakes={"Its divisor changed.": "nowhere"})
    assert [each[0] for each in judge([[asked, typed] for typed in ("left", " LEFT", '"left"', "right")])] == [
        True, True, True, False,
    ]  # fmt: skip
    assert judge([[asked, "Nowhere"]])[0] == [False, "Its divisor changed."]
    assert [each[0] for each in judge([[exercise(True, monkeypatch), typed] for typed in ("True", "false")])] == [
        True, False,
    ]  # fmt: skip


def test_a_number_with_a_decimal_comma_is_answered_by_what_to_write(judge, monkeypatch):
    assert judge([[exercise(0.25, monkeypatch), "0,25"]])[0] == [False, "Write a decimal point, not a comma."]


def test_a_reader_types_an_answer_and_sees_whether_it_is_right(browser, tmp_path, monkeypatch):
    notebook = made(("exercise", "answer = ..."), "check(answer, right)", "check(answer, long)")
    for cell, right in zip(notebook.cells[2:], (1 / 12, np.ones(MOST_TYPED + 1)), strict=True):
        data = shown_by(..., right, monkeypatch, hint="A strip of <250> columns.", mistakes={'It "is" 1/6.': 1 / 6})
        cell.outputs.append(nbformat.v4.new_output("display_data", data))
    write_shared(tmp_path)
    (tmp_path / "it.html").write_text(page(notebook, "it"), "utf-8")
    tab = browser.new_page()
    tab.goto((tmp_path / "it.html").as_uri())
    assert tab.locator("form.exercise:visible").count() == 1 and NO_PYTHON in tab.locator(".shown").inner_text()
    for typed, said in (
        ("1/6", '✗ Not yet. It "is" 1/6. Hint: A strip of <250> columns.'),
        ("0.083", "✓ Right. With more digits: 0.0833333."),
        (" ", "✗ Not yet. No answer yet. Hint: A strip of <250> columns."),
    ):
        tab.get_by_label("Your answer").fill(typed)
        tab.keyboard.press("Enter")
        assert tab.locator("form.exercise output").inner_text() == said
    tab.close()


def test_without_scripts_a_page_says_where_answers_are_checked(monkeypatch):
    notebook = made(("exercise", "answer = ..."), "check(answer, 1)")
    data = shown_by(..., 1, monkeypatch, hint="One.")
    notebook.cells[2].outputs.append(nbformat.v4.new_output("display_data", data))
    html = page(notebook, "it")
    assert f"<noscript><p><em>{NO_PYTHON}" in html and "run that cell" not in html
