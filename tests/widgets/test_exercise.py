"""The checking cells of the notebooks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("IPython", reason="the notebooks need IPython: pip install 'apviz[notebook]'")

from apviz.widgets import check


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []

    def note(shown: Any) -> None:
        texts.append(shown.data)

    monkeypatch.setattr("apviz.widgets.exercise.display", note)
    return texts


@pytest.mark.parametrize(
    "answer, right", [(3.0, 3), (np.ones(3), [1, 1, 1]), ("cyclic", "cyclic"), (True, np.True_), (1e-9, 0.0)]
)
def test_a_right_answer_is_right(answer, right, said):
    assert check(answer, right, hint="none needed") and "Right" in said[0]


@pytest.mark.parametrize(
    "answer, right, text",
    [
        (3.1, 3, "differs by 0.033"),
        (np.ones(2), np.ones(3), r"shape is (2,), and should be (3,)"),
        ("cyclic", "random", "You say cyclic"),
        (False, True, "You say False"),
        (np.nan, 1.0, "no finite number"),
        ("many", 3.0, "type str"),
        ([1, 2], "cyclic", "You say [1, 2]"),
        ("yes", True, "You say yes"),
    ],
)
def test_a_wrong_answer_is_wrong_and_gets_the_hint(answer, right, text, said):
    assert not check(answer, right, hint="think of Pythagoras")
    assert text in said[0] and "think of Pythagoras" in said[0]


def test_dots_are_no_answer(said):
    assert not check(..., 1.0, hint="none") and "No answer yet" in said[0]
