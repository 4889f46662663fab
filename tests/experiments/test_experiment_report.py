"""The output of an experiment: the table in a terminal of any width, and the page in a real browser."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from apviz.experiments import EXPERIMENTS, Options, Table
from apviz.experiments.report import command, write_experiment_report
from tests.experiments.catalogue.test_every_experiment import printed
from tests.report.test_page import open_page


@pytest.mark.parametrize("width", [80, 100, 150, 300])
def test_numbers_are_not_wrapped_and_the_papers_stay_next_to_ours(width):
    table = Table(
        "Training",
        ["data", "method", "test RMSE", "paper", "CG iterations or AP epochs", "paper", "time", "paper"],
        [["airquality, n = 2,000", "Alternating projection (greedy, b = 50)", "0.261 ± 0.001", "0.262 ± 0.001", "550*",
          "16726 ± 2724", "12.5 s", "16.9 min ± 0.5"]],
        "",
    )  # fmt: skip
    text = printed(table, width)
    for ours, theirs in (("0.261 ± 0.001", "0.262 ± 0.001"), ("550*", "16726 ± 2724"), ("12.5 s", "16.9 min ± 0.5")):
        assert re.search(rf"{re.escape(ours)} +{re.escape(theirs)}", text)
    assert ("continued" in text) == (width < 150)
    # every part states what its rows describe
    assert text.count("airquality") == text.count("Training")


def test_a_word_wider_than_the_terminal_is_wrapped_and_not_truncated():
    text = printed(Table("Long", ["method", "x"], [["m" * 50, "1"]], ""), 40)
    assert text.count("m" * 10) and len(re.findall("m", text.replace("method", ""))) == 50


def test_brackets_in_a_table_are_text_and_no_markup():
    assert "a [red] b" in printed(Table("t", ["method"], [["a [red] b"]], ""), 80)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(), "apviz experiment flops --out runs/experiments"),
        (Options(300, "cpu", 2, dataset="china"),
         "apviz experiment flops --n 300 --dataset china --out runs/experiments --device cpu --seeds 2"),
    ],
)  # fmt: skip
def test_the_command_in_a_report_gives_the_same_options(options, words):
    assert command(EXPERIMENTS["flops"], options) == words


def test_a_report_of_some_cells_is_marked_as_incomplete(finished, tmp_path):
    options, rows, _ = finished("convergence")
    few = dict(list(rows.items())[:1])
    text = write_experiment_report(EXPERIMENTS["convergence"], few, replace(options, out=tmp_path)).read_text("utf-8")
    assert "1 of 4 cells are done" in text


def test_the_name_of_a_data_set_cannot_inject_markup_into_the_page(finished, tmp_path):
    options, rows, _ = finished("predictive-mean")
    evil = {key: row | {"data": "<b id=x>", "machine": "<script>alert(1)</script>"} for key, row in rows.items()}
    path = write_experiment_report(EXPERIMENTS["predictive-mean"], evil, replace(options, out=tmp_path))
    text = path.read_text("utf-8")
    assert "<b id=x>" not in text and "<script>alert(1)" not in text
    assert html.escape("<b id=x>") in text


@pytest.mark.slow
def test_the_page_renders_offline_without_errors_and_fits_a_phone(browser, finished):
    options, rows, _ = finished("convergence")
    page = write_experiment_report(EXPERIMENTS["convergence"], rows, options)
    tab, problems = open_page(browser, page, 390, "dark")
    assert tab.locator("tbody tr").count() == 4
    assert "china (for 3droad), n = 200" in tab.locator("h2").all_inner_texts()
    assert tab.locator(".chart:has(.main-svg)").count() == tab.locator(".chart").count() == 1
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert problems == []
