"""Stated times of lessons and lectures are those of their texts."""

from __future__ import annotations

import re
import shutil

import pytest

pytest.importorskip("nbconvert", reason="the notebooks need JupyterLab: pip install 'apviz[notebook]'")

from apviz.plots.blocks import residual_image
from notebooks.build.aloud import seconds, speech
from notebooks.build.times import disagreements, table, times_of
from tests.notebooks.making import made
from tests.notebooks.statements import ROOT, prose, source_of


def test_a_lesson_takes_its_words_at_140_a_minute_and_its_animations_but_not_what_is_folded():
    words = "word " * 274
    notebook = made(
        ("text", f"{words}<details>{words}</details> Press *play* (24 seconds)."),
        "widgets.Zigzag()",  # 60 legs of 0.6 s
        "# widgets.Zigzag() is not shown here",
        ("text", f"## For the lecturer\n\n{words}"),
        title="Four words of title",
    )
    for cell, kind in zip(notebook.cells, ["slide", "skip", "slide", "skip", "notes"], strict=True):
        cell.metadata["slideshow"] = {"slide_type": kind}
    times = times_of(notebook, "07")
    assert (times.words, times.words_on_slides, times.played) == (283, 5, 60)
    assert times.to_read == 3 and times.aloud == pytest.approx(5 / 140 + 1)
    assert table([times], "| 0–10 | what | [07](07.ipynb) |").endswith("| 07 | 5 | 60 | 1 | 10 |")


def test_the_pictures_of_notebook_00_play_as_long_as_it_says():
    snapshots = int(re.search(r"snapshots=range\((\d+)\)", source_of("00", "compare"))[1])
    assert round((snapshots - 1) * residual_image._PAUSE / 1000) == 11 and prose("00").count("(11 seconds)") == 2


def test_all_stated_times_agree():
    assert disagreements(ROOT) == []


@pytest.mark.parametrize(
    ("page", "stated", "instead", "found"),
    [
        ("notebooks/07-skeletons-and-passes.ipynb", "About 7", "About 9", "07 does not state the same minutes"),
        (
            "notebooks/07-skeletons-and-passes.ipynb",
            "10 in the lecture",
            "11 in the lecture",
            "07 states 11 minutes in",
        ),
        ("notebooks/LECTURE.md", "| 32–42 |", "| 32–34 |", "07 takes 4 minutes aloud, and the plan has 2"),
        ("notebooks/LECTURE.md", "minutes read aloud", "minutes", "does not state that a lecture has 12 to 13 minutes"),
        ("README.md", "6 to 14 minutes", "7 to 15 minutes", "README.md does not state '6 to 14 minutes'"),
    ],
)
def test_a_time_that_does_not_agree_is_reported(page, stated, instead, found, tmp_path):
    for path in (
        *ROOT.glob("notebooks/*.ipynb"),
        *(ROOT / each for each in ("notebooks/LECTURE.md", "README.md", "docs/lessons.md")),
    ):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(path, copy)
    text = (tmp_path / page).read_text("utf-8")
    assert stated in text
    (tmp_path / page).write_text(text.replace(stated, instead), "utf-8")
    assert any(found in each for each in disagreements(tmp_path))


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        (r"so $\|f\|_H^2 = v^\top K v$", "so the norm of f H squared equals v transpose K v"),
        (r"$\kappa' \leq \kappa$", "kappa prime at most kappa"),
        (r"$K_{II}^{-1} r$ and $\tfrac{1}{2}$", "K II inverse r and 1 over 2"),
        ("**Bet** on [the page](page.md), `apviz.rkhs`", "Bet on the page, apviz.rkhs"),
    ],
)
def test_formulas_are_read_in_words(written, spoken):
    assert " ".join(speech(written).split()) == spoken


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="a text is read aloud by espeak-ng")
def test_twice_the_text_takes_twice_the_seconds():
    text = "A block settles its rows, and disturbs the others. "
    assert seconds(2 * text) == pytest.approx(2 * seconds(text), rel=0.1) and 3 < seconds(text) < 8
