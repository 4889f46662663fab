"""The static HTML preview of a page."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard import first_sight

COLUMNS = [["run", "text"], ["b", "integer"], ["seconds", "2 decimals"], ["residual", "scientific"]]


def table(*rows, selected=""):
    return first_sight.table(COLUMNS, rows, selected, {"k": ["#123456", "10px,4px", "star"]})


def test_cells_have_the_format_of_the_table_that_replaces_them():
    made = table(["k", "AP", 12_345.0, [1.0, "> "], 7.314e-3])
    for words in ("AP</td>", ">12,345<", ">&gt; 1.00<", ">7.31e-3<"):
        assert words in made
    assert 'stroke="#123456"' in made and "10,4" in made and "★" in made


def test_missing_values_are_dashes_and_the_selected_row_is_marked():
    made = table(["k", "AP", None, None, None], ["l", "CG", None, None, None], selected="l")
    assert made.count("–") == 6
    assert made.index("class=now") < made.index("CG") and made.index("class=now") > made.index("AP")


def test_names_of_runs_are_shown_unchanged():
    made = table(["k", "<img src=x onerror=alert(1)>", None, None, None])
    assert "<img" not in made and "&lt;img src=x onerror=alert(1)&gt;" in made


def test_a_page_without_content_has_no_preview():
    assert first_sight.page(None, ["Compare"], "Compare", "light", lecture=False) == ""
