"""Commas and points in numbers: each column decides their meaning, and an ambiguous one raises a question."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from apviz.cli import app
from apviz.datasets import inspect_table, load_table

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
ROWS = 60


def thousands(values, mark=","):
    return [f"{value:,.0f}".replace(",", mark) for value in values]


def decimals(values, mark=",", digits=2):
    return [f"{value:.{digits}f}".replace(".", mark) for value in values]


def table(path, separator=";", **columns):
    """Write a file with these columns and a target `y` of integers."""
    columns = columns | {"y": [str(k * k) for k in range(ROWS)]}
    rows = [
        separator.join(f'"{cell}"' if separator in cell else cell for cell in row)
        for row in zip(*columns.values(), strict=True)
    ]
    path.write_text("\n".join([separator.join(columns), *rows]) + "\n", "utf-8")
    return path


@pytest.fixture
def ticks(tmp_path):
    """Write volumes with commas between thousands next to prices with decimal commas, as in `ticks79.csv`."""
    rng = np.random.default_rng(0)
    volume = rng.integers(-400_000, 400_000, ROWS)
    volume[np.abs(volume) < 1_000] = 12_345
    price = 11 + rng.uniform(size=ROWS).round(2)
    return table(tmp_path / "t.csv", volume=thousands(volume), price=decimals(price)), volume, price


def test_an_ambiguous_column_is_rejected_with_both_readings_and_the_option(ticks):
    path, volume, _ = ticks
    with pytest.raises(ValueError) as refused:
        load_table(path, "y")
    first = f"{volume[0]:,}"
    said = str(refused.value)
    assert f"volume can be read in two ways: “{first}” is {volume[0]} (commas between thousands) or" in said
    assert f"{volume[0] / 1000:.10g} (decimal comma)" in said and '--decimal "volume=."' in said
    # an unused column does not matter
    assert load_table(path, "y", inputs=["price"]).feature_names == ("price",)


@pytest.mark.parametrize("decimal", [".", {"volume": "."}])
def test_the_chosen_decimal_mark_is_used_and_kept_with_the_data(ticks, decimal):
    path, volume, price = ticks
    found = inspect_table(path, decimal=decimal)
    np.testing.assert_array_equal(found.column("volume").values, volume)
    np.testing.assert_allclose(found.column("price").values, price, rtol=1e-15)
    assert json.loads(load_table(path, "y", decimal=decimal).preparation)["decimal"] == decimal
    np.testing.assert_allclose(
        inspect_table(path, decimal={"volume": ","}).column("volume").values, volume / 1000, rtol=1e-15
    )


def test_one_unambiguous_text_decides_the_others_of_its_column(tmp_path):
    ambiguous = ["70,567", "12,345"] * (ROWS // 2 - 1)
    for proof, values in (
        (["1,234,567", "5"], [70567.0, 12345.0]),
        (["1,234.5", "5"], [70567.0, 12345.0]),
        (["0,567", "5"], [70.567, 12.345]),
        (["1234,567", "5"], [70.567, 12.345]),
        (["70,56", "5"], [70.567, 12.345]),
        (["1.234,567", "5"], [70.567, 12.345]),
        (["70,567e3", "5"], [70.567, 12.345]),
    ):
        path = table(tmp_path / "t.csv", a=[*ambiguous, *proof])
        column = inspect_table(path).column("a")
        assert (column.question, column.kind) == (None, "number") and column.values[:2].tolist() == values, proof
        # the same with points, next to a column that has decimal commas
        swapped = [cell.translate(str.maketrans(",.", ".,")) for cell in [*ambiguous, *proof]]
        path = table(tmp_path / "t.csv", a=swapped, b=decimals(np.arange(ROWS) / 7))
        column = inspect_table(path).column("a")
        expected = [70567.0, 12345.0] if values[0] > 1000 else [70.567, 12.345]
        assert (column.question, column.values[:2].tolist()) == (None, expected), proof


def test_a_single_typing_error_among_many_texts_decides_nothing(tmp_path):
    path = tmp_path / "t.csv"
    cells = [f"{k},567" for k in range(1, 500)] + ["70,56"]
    path.write_text("a;y\n" + "\n".join(f"{cell};{k}" for k, cell in enumerate(cells)))
    assert inspect_table(path).column("a").question


def test_points_are_decimal_unless_another_column_has_decimal_commas(tmp_path):
    a = ["70.567", "12.345"] * (ROWS // 2)
    proven = inspect_table(table(tmp_path / "t.csv", a=a, b=[str(k / 4) for k in range(ROWS)])).column("a")
    usual = inspect_table(table(tmp_path / "t.csv", ",", a=a)).column("a")
    for column in (proven, usual):
        assert column.question is None and column.values[0] == 70.567
    paired = inspect_table(table(tmp_path / "t.csv", a=a, b=decimals(np.arange(ROWS) / 7))).column("a")
    alone = inspect_table(table(tmp_path / "t.csv", a=a)).column("a")  # like a German table of integers
    for column in (paired, alone):
        expected = "a can be read in two ways: “70.567” is 70.567 (decimal point) or 70567 (points between thousands)"
        assert column.question.of("a") == expected


@pytest.mark.parametrize("decimal", [",", {"a": ","}])
def test_decimal_commas_by_the_user_make_points_separate_thousands(tmp_path, decimal):
    path = table(tmp_path / "t.csv", ",", a=[f"{k + 1}.{100 + k}" for k in range(ROWS)])
    assert inspect_table(path).column("a").values[:2].tolist() == [1.1, 2.101]
    assert inspect_table(path, decimal=decimal).column("a").values[:2].tolist() == [1100, 2101]


def test_quoted_numbers_in_a_comma_separated_file_are_ambiguous_too(tmp_path):
    path = table(tmp_path / "t.csv", ",", a=["70,567", "12,345"] * (ROWS // 2))
    assert inspect_table(path).column("a").question
    assert inspect_table(path, decimal=".").column("a").values[0] == 70567


@pytest.mark.parametrize("sign", [" ", "\u00a0", "\u202f", "'", "’"])
def test_thousands_with_spaces_and_apostrophes_have_one_meaning(tmp_path, sign):
    values = np.arange(ROWS) * 1234.5 + 1000
    cells = [f"{value:,.1f}".replace(",", sign) for value in values]
    np.testing.assert_allclose(inspect_table(table(tmp_path / "t.csv", a=cells)).column("a").values, values)


def test_a_mixed_column_is_read_text_by_text_if_each_text_has_one_meaning(tmp_path):
    path = table(tmp_path / "t.csv", a=["0,5", "0.7"] * (ROWS // 2))
    assert inspect_table(path).column("a").values[:2].tolist() == [0.5, 0.7]
    path = table(tmp_path / "t.csv", a=["0,5", "0.7", "70,567"] * (ROWS // 3))
    assert inspect_table(path).column("a").question


def test_texts_that_only_look_like_numbers_stay_texts(tmp_path):
    odd = ["1,2,3", "12,34,567", "1_000", "0x1F", "1,23.4,5", "--5", "٣"] * 9
    column = inspect_table(table(tmp_path / "t.csv", a=odd[:ROWS])).column("a")
    assert column.kind == "text" and column.distinct == 7


def test_large_integers_keep_their_digits(tmp_path):
    large = [str(2**62 + k) for k in range(ROWS)]
    column = inspect_table(table(tmp_path / "t.csv", a=large, b=[str(2**63 + k) for k in range(ROWS)])).column("a")
    assert column.values.tolist() == list(range(ROWS))


def test_an_invalid_decimal_mark_and_an_unknown_column_are_rejected(ticks):
    path, *_ = ticks
    with pytest.raises(ValueError, match=r"decimal = ';': expected '\.' or ','"):
        load_table(path, "y", decimal=";")
    with pytest.raises(ValueError, match="has no column size"):
        load_table(path, "y", decimal={"size": "."})


def test_the_command_line_shows_ambiguous_texts_and_asks_for_a_decision(ticks):
    path, volume, _ = ticks
    said = CliRunner().invoke(app, ["datasets", "inspect", str(path)], env={"COLUMNS": "200"}).output
    assert f"{volume[0]:,} (?)" in said and 'choose --decimal "volume=." or --decimal "volume=,"' in said
    decided = ["datasets", "inspect", str(path), "--decimal", "volume=."]
    said = CliRunner().invoke(app, decided, env={"COLUMNS": "200"}).output
    assert f"{volume[0]:,} → {volume[0]}" in said and "two ways" not in said
    refused = CliRunner().invoke(app, ["compare", "--dataset", str(path), "--target", "y"], env={"COLUMNS": "900"})
    assert refused.exit_code == 2 and "can be read in two ways" in refused.output
    wrong = CliRunner().invoke(app, ["datasets", "inspect", str(path), "--decimal", "volume"])
    assert wrong.exit_code == 2 and "--decimal takes" in wrong.output


def test_the_command_line_reports_oddities(tmp_path):
    rng = np.random.default_rng(0)
    a = rng.normal(size=ROWS).round(6)
    far = a.copy()
    far[3] = 1e6
    names = [f"n{k}" for k in range(ROWS)]
    path = table(tmp_path / "t.csv", ",", id=[str(k) for k in range(ROWS)],
                 a=map(str, far), b=map(str, a), c=map(str, a), name=names)  # fmt: skip
    said = CliRunner().invoke(app, ["datasets", "inspect", str(path)], env={"COLUMNS": "300"}).output
    for part in ("a is 1e+06 in row 4", "b and c are equal", "id only counts the rows", "a place (--ids drop)"):
        assert part in said
    notes = load_table(path, "y").notes
    assert any(note.startswith("a is 1e+06 in row 4") for note in notes)
