"""Dates whose day and month can be exchanged are asked for, and new rows have the order of the training rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from apviz.cli import app
from apviz.datasets import inspect_table, load_table
from apviz.datasets.tables.columns import column_of
from apviz.datasets.tables.encoding import encode
from apviz.datasets.tables.new_rows import read_new_rows

#: the first of each month, with the day first: read with the month first, they are the first twelve days of January
MONTHS = pd.date_range("2020-01-01", periods=12, freq="MS")
DAYS = (MONTHS - MONTHS[0]).days.to_numpy(dtype=float)


def write(path, texts, separator=","):
    lines = [separator.join(["when", "y"]), *(separator.join([text, str(k % 5)]) for k, text in enumerate(texts))]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def monthly(tmp_path):
    return write(tmp_path / "monthly.csv", MONTHS.strftime("%d/%m/%Y"))


@pytest.mark.parametrize("separator", [",", ";"])
def test_dates_with_two_readings_are_refused_with_both_and_the_option(tmp_path, separator):
    path = write(tmp_path / "t.csv", MONTHS.strftime("%d/%m/%Y"), separator)
    with pytest.raises(
        ValueError,
        match=r"when can be read in two ways: “01/02/2020” is 2020-02-01 \(day first\) or 2020-01-02 \(month first\)\. "
        r"Say which: dates = \{'when': 'day-first'\} or \{'when': 'month-first'\} "
        r"\(--dates \"when=day-first\" or --dates \"when=month-first\"\), or leave the column out",
    ):
        load_table(path, "y")


@pytest.mark.parametrize("dates", ["day-first", {"when": "day-first"}])
def test_the_chosen_order_is_used_and_kept_with_the_data(monthly, dates):
    np.testing.assert_array_equal(inspect_table(monthly, dates=dates).column("when").values, DAYS)
    np.testing.assert_array_equal(inspect_table(monthly, dates="month-first").column("when").values, np.arange(12.0))
    data = load_table(monthly, "y", dates=dates)
    assert f'"dates": {dates!r}'.replace("'", '"') in data.preparation


@pytest.mark.parametrize(
    ("form", "last"), [("%d/%m/%Y", "31/12/2020"), ("%m/%d/%Y", "12/31/2020"), ("%d.%m.%Y", None), ("%Y-%m-%d", None)]
)
def test_one_date_with_a_single_reading_decides_and_other_formats_are_not_asked_for(tmp_path, form, last):
    texts = [*MONTHS.strftime(form), *([last] if last else [])]
    found = inspect_table(write(tmp_path / "t.csv", texts)).column("when")
    assert found.question is None and found.kind == "date"
    np.testing.assert_array_equal(found.values[:12], DAYS)


def test_dates_that_are_equal_in_both_readings_are_not_asked_for(tmp_path):
    texts = [f"{k:02}/{k:02}/2020" for k in range(1, 13)]
    assert inspect_table(write(tmp_path / "t.csv", texts)).column("when").question is None


def test_the_preview_shows_the_text_next_to_the_date(monthly):
    table = inspect_table(monthly)
    assert table.cells(table.column("when"))[1] == "01/02/2020 (?)"
    table = inspect_table(monthly, dates="day-first")
    assert table.cells(table.column("when"))[1] == "01/02/2020 → 2020-02-01"


def test_new_rows_have_the_order_of_the_training_rows(tmp_path):
    training = pd.Series([*MONTHS.strftime("%d/%m/%Y"), "31/12/2020"])
    encoding, _ = encode(column_of("when", training), np.ones(13, dtype=bool), fill=False)
    path = write(tmp_path / "new.csv", ["01/03/2020", "01/06/2020"])
    rows = read_new_rows(path, [encoding])
    np.testing.assert_array_equal(rows.inputs()[:, 0], DAYS[[2, 5]])
    # said by the user, or by a row of the new table itself
    np.testing.assert_array_equal(read_new_rows(path, [encoding], dates="month-first").inputs()[:, 0], [2, 5])
    path = write(tmp_path / "new.csv", ["01/03/2020", "12/31/2020"])
    np.testing.assert_array_equal(read_new_rows(path, [encoding]).inputs()[:, 0], [2, 365])


def test_the_command_line_asks_and_takes_an_answer(monthly):
    def said(*options):
        output = CliRunner().invoke(app, ["datasets", "inspect", str(monthly), *options]).output
        return "".join(output.split())  # wherever a terminal wraps its lines

    assert '--dates"when=day-first"or--dates"when=month-first"' in said()
    answered = said("--dates", "day-first")
    assert "twoways" not in answered and "2020-01-01" in answered
    assert "--datestakesday-firstormonth-firstorNAME=day-first" in said("--dates", "when=first")


def test_an_invalid_order_is_rejected(monthly):
    with pytest.raises(ValueError, match="expected 'day-first' or 'month-first'"):
        load_table(monthly, "y", dates="european")
