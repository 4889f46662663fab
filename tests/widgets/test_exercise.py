"""The checking cells of the notebooks."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("IPython", reason="the notebooks need IPython: pip install 'apviz[notebook]'")

from apviz.widgets import check


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []

    def note(shown: Any, raw: bool = False) -> None:
        texts.append(shown["text/markdown"] if raw else shown.data)

    monkeypatch.setattr("apviz.widgets.exercise.display", note)
    return texts


@pytest.mark.parametrize(
    "answer, right", [(3.0, 3), (np.ones(3), [1, 1, 1]), ("cyclic", "cyclic"), (True, np.True_), (1e-9, 0.0)]
)
def test_a_right_answer_is_accepted(answer, right, said):
    assert check(answer, right, hint="none needed") and "Right" in said[0]


@pytest.mark.parametrize(
    "answer, right, text",
    [
        (3.1, 3, "Yours is too large"),
        (np.ones(2), np.ones(3), r"shape is (2,), but should be (3,)"),
        ("cyclic", "random", "Your answer: cyclic"),
        (False, True, "Your answer: False"),
        (np.nan, 1.0, "not finite"),
        ("many", 3.0, "Give a number; yours is of type str"),
        ("1/0", 3.0, "Give a number"),
        ([1.0, 2.1], [1.0, 2.0], "differs by 0.05 of the largest entry"),
        ([1, 2], "cyclic", "Your answer: [1, 2]"),
        ("yes", True, "Your answer: yes"),
        ([True], True, "Your answer: [True]"),
        (1 + 2j, 3.0, "Give a number; yours is of type complex"),
        ([1, [2, 3]], [1.0, 2.0], "Give an array of shape (2,)"),
        (None, [1.0, 2.0], "The shape is (), but should be (2,)"),
    ],
)
def test_a_wrong_answer_is_rejected_with_the_hint(answer, right, text, said):
    assert not check(answer, right, hint="think of Pythagoras")
    assert text in said[0] and "think of Pythagoras" in said[0]


def test_dots_are_not_an_answer(said):
    assert not check(..., 1.0, hint="none") and "No answer yet" in said[0]


@pytest.mark.parametrize(
    "answer, right",
    [
        (0.0833, 1 / 12), (0.083, 1 / 12), ("1/12", 1 / 12), (" 0.0833 ", 1 / 12), (Fraction(1, 12), 1 / 12),
        (1.2e-7, 1.2345e-7), (torch.tensor(3.0, requires_grad=True), 3.0), (torch.ones(2, 1), np.ones(2)),
        (np.ones((1, 3)), np.ones((3, 1))), ([[0.5]], 0.5), ([0.333, 0.667], [1 / 3, 2 / 3]), ([0.33], 1 / 3),
        (["1/3", "2/3"], np.array([1 / 3, 2 / 3])), ((Fraction(1, 3), 0.67), torch.tensor([1 / 3, 2 / 3])),
        ([torch.tensor(1.0, requires_grad=True), torch.tensor(2.0)], [1, 2]), (np.float32(0.1), 0.1),
        ([[0.5, 0.25]], np.array([[0.5], [0.25]])),
    ],
)  # fmt: skip
def test_rounded_numbers_fractions_rows_columns_and_tensors_are_accepted(answer, right, said):
    assert check(answer, right, hint="none needed") and "differs" not in said[0]


@pytest.mark.parametrize(
    "answer, right",
    [(0.08, 1 / 12), (0.0834, 1 / 12), (40.4, 40), (2, 2.4), ("0.09", 1 / 12), ([0.333, 0.668], [1 / 3, 2 / 3]),
     ([0.333, 0.3], [1 / 3, 1 / 3]), ([[0.3, 0.7]], [1 / 3, 2 / 3])],
)  # fmt: skip
def test_wrong_or_coarse_rounding_and_non_integers_are_rejected(answer, right, said):
    assert not check(answer, right, hint="more digits")


@pytest.mark.parametrize(
    "answer, right, said_of_it",
    [
        (-3.0, 3.0, "Its sign is wrong."), (0.3, 0.09, "You forgot the square."),
        (0.0081, 0.09, "you forgot the root"), (6, 3.0, "twice the answer"), (1.5, 3, "half the answer"),
        (0.25, 4.0, "the reciprocal"), (0.7, 0.3, "one minus the answer"), (12.5, 0.125, "a percentage"),
        (np.array([[1.0, 3.0], [2.0, 4.0]]), [[1.0, 2.0], [3.0, 4.0]], "Rows and columns are swapped."),
        (7.0, 5.0, "That counts the last block twice."),
    ],
)  # fmt: skip
def test_a_common_mistake_is_named(answer, right, said_of_it, said):
    assert not check(answer, right, hint="none", mistakes={"That counts the last block twice.": 7})
    assert said_of_it in said[0]


def test_the_case_of_a_text_does_not_matter_and_a_common_mistake_is_named(said):
    assert check(" Cyclic", "cyclic", hint="none needed")
    assert not check("random", "cyclic", hint="none", mistakes={"That one draws lots.": "random"})
    assert "That one draws lots." in said[1] and not check(3, "cyclic", hint="none") and "in quotation marks" in said[2]


def test_the_stated_error_of_a_right_answer_is_correct(said):
    assert check(0.3333, 1 / 3, hint="none needed") and "With more digits: 0.333333" in said[0]
    assert check([0.33, 0.67], [1 / 3, 2 / 3], hint="none needed") and "0.333333, 0.666667" in said[1]
