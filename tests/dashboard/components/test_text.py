"""Text is shown and written literally."""

from __future__ import annotations

import io

import pandas as pd
import pytest

pytest.importorskip("panel")

from apviz.dashboard.components.text import without_formulas


def test_no_cell_of_a_table_starts_a_formula_and_numbers_are_unchanged():
    frame = pd.DataFrame({"run": ["=1+1", "+a", "-b", "@c", "cg"], "residual": [-1.0, 2.0, -3e-5, 0.0, 1.0]})
    text = without_formulas(frame).to_csv(index=False)
    back = pd.read_csv(io.StringIO(text))
    assert back["run"].tolist() == ["'=1+1", "'+a", "'-b", "'@c", "cg"]
    assert back["residual"].tolist() == frame["residual"].tolist()
