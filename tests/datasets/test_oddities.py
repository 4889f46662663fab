"""Oddities of data are found; skewed, heavy-tailed, spiked or rounded data are not odd."""

from __future__ import annotations

import time

import numpy as np
import pytest

from apviz.datasets.tables.oddities import OddityKind, find_oddities

HEALTHY = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "lognormal": lambda rng, n: rng.lognormal(size=n),
    "lognormal of four decades": lambda rng, n: rng.lognormal(sigma=2, size=n),
    "Student, three degrees": lambda rng, n: rng.standard_t(3, n),
    "Cauchy": lambda rng, n: rng.standard_cauchy(n),
    "zeros and a lognormal": lambda rng, n: rng.lognormal(size=n) * (rng.uniform(size=n) < 0.3),
    "few exponential values among zeros": lambda rng, n: rng.exponential(size=n) * (rng.uniform(size=n) < 0.05),
    "two clusters": lambda rng, n: np.where(np.arange(n) % 10 == 0, 60.0, 0.0) + rng.standard_normal(n),
    "rare events": lambda rng, n: (rng.uniform(size=n) < 0.01).astype(float),
    "counts": lambda rng, n: rng.poisson(0.2, n).astype(float),
    "one decimal": lambda rng, n: rng.standard_normal(n).round(1),
    "random walk": lambda rng, n: rng.standard_normal(n).cumsum(),
    "prices": lambda rng, n: rng.lognormal(10, 1, n).round(),
    "density without bound at 0": lambda rng, n: rng.weibull(0.5, n),
}


def kinds(x, y=None, names=None):
    return {each.kind for each in find_oddities(x, y, names)}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_columns_of_11_to_100_000_rows_are_not_reported(name):
    rng = np.random.default_rng(1)
    for n, times in ((11, 5), (40, 3), (300, 2), (3_000, 1), (100_000, 1)):
        for _ in range(times):
            column = HEALTHY[name](rng, n)
            paired = np.column_stack([column, rng.uniform(size=n)])
            # a few draws may all be equal, rounded values may repeat, and events have two: these findings are true
            true = {OddityKind.CONSTANT_COLUMN, OddityKind.DUPLICATE_ROWS, OddityKind.TWO_TARGET_VALUES}
            assert kinds(paired, np.roll(column, 1)) <= true, n
        assert kinds(column[:, None]) <= true, n


def test_hardly_any_of_many_small_healthy_tables_is_reported():
    rng = np.random.default_rng(2)
    tables = [rng.standard_t(3, (11, 2)) * rng.lognormal(size=(11, 1)) for _ in range(150)]
    assert sum(bool(find_oddities(table)) for table in tables) <= 3


@pytest.mark.parametrize("value", [-30.0, 100.0, 1e6, 1e300])
def test_an_outlier_is_named_with_its_row_in_inputs_and_targets(value):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((500, 2)), rng.standard_normal(500)
    x[7, 1] = y[9] = value
    inputs, targets = find_oddities(x, y, ["a", "b", "y"])
    assert (inputs.kind, inputs.columns, inputs.rows) == (OddityKind.OUTLIER_IN_INPUTS, ("b",), (7,))
    assert (targets.kind, targets.columns, targets.rows) == (OddityKind.OUTLIER_IN_TARGETS, ("y",), (9,))
    assert inputs.message.startswith(f"b is {value:.4g} in row 8, ")


def test_several_outliers_at_any_distance_and_sentinels_are_found_together():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(400, 1))
    x[:3, 0] = [1e3, 1e6, -1e9]
    assert set(find_oddities(x)[0].rows) == {0, 1, 2}
    x[:8, 0] = -999.0
    found = [each for each in find_oddities(x) if each.kind is OddityKind.OUTLIER_IN_INPUTS]
    assert found[0].count == 8


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_codes_for_missing_values_are_found_however_many_there_are(share):
    rng = np.random.default_rng(0)
    x = rng.normal(15.0, 5.0, (400, 2))
    missing, above = rng.uniform(size=400) < share, rng.uniform(size=400) < 0.04
    x[missing, 0], x[above & ~missing, 0] = -999.0, 9999.0
    (found,) = find_oddities(x, names=["a", "b"])
    assert (found.kind, found.columns) == (OddityKind.OUTLIER_IN_INPUTS, ("a",))
    assert found.count == missing.sum() + (above & ~missing).sum()
    x[above & ~missing, 0] = 15.0
    assert f"a is -999 in row {missing.argmax() + 1}" in find_oddities(x, names=["a", "b"])[0].message
    assert f"({missing.sum()} equal values; a code for missing ones?)" in find_oddities(x, names=["a", "b"])[0].message


def test_an_outlier_among_mostly_zeros_is_found():
    rng = np.random.default_rng(0)
    x = rng.exponential(size=2_000) * (rng.uniform(size=2_000) < 0.2)
    x[5] = 1e5
    assert find_oddities(x[:, None])[0].rows == (5,)


def test_one_gross_outlier_is_found_in_30_rows():
    x = np.random.default_rng(0).uniform(size=(30, 2))
    x[4, 0] = 1e6
    assert kinds(x) == {OddityKind.OUTLIER_IN_INPUTS}


def test_duplicates_are_counted_with_and_without_their_targets():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(60, 3)), rng.uniform(size=60)
    x[0, 0] = 0.0
    again = np.concatenate([x, x[:20]])
    again[60, 0] = -0.0
    (found,) = find_oddities(again, np.concatenate([y, y[:5], y[5:20] + 1]))
    assert (found.kind, found.count, found.rows) == (OddityKind.DUPLICATE_ROWS, 20, (60, 61, 62, 63, 64))
    assert "20 of 80 rows" in found.message and "5 of them with the same targets" in found.message


@pytest.mark.parametrize("d", [1, 2, 6, 30])
def test_near_duplicates_are_found_in_any_dimension_and_unit(d):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(500, d))
    jitter = 1e-8 * rng.uniform(-1, 1, size=(50, d))
    near = np.concatenate([x, x[:50] + jitter, x[:50] - jitter]) * 10.0 ** rng.integers(-9, 9, d) + 1.0
    x = near - 1.0
    (found,) = find_oddities(x)
    assert found.kind is OddityKind.NEAR_DUPLICATE_ROWS and 90 <= found.count <= 110


def test_one_outlier_does_not_make_all_other_rows_near_duplicates_or_columns_equal():
    x = np.random.default_rng(0).uniform(size=(800, 2))
    x[0] = 1e6
    (found,) = find_oddities(x)
    assert found.columns == ("column 1", "column 2") and found.count == 1


def test_equal_columns_are_found_in_other_units_and_with_other_signs():
    rng = np.random.default_rng(0)
    u, w = rng.standard_normal((2, 300))
    x = np.column_stack([u, w, u, 1e9 - 1e5 * u, w.astype(np.float32), u + 0.001 * w])
    first, second = find_oddities(x, names=["u", "w", "same", "units", "rounded", "near"])
    assert {first.columns, second.columns} == {("u", "same", "units"), ("w", "rounded")}
    assert "different units" in first.message
    (equal,) = find_oddities(x[:, [0, 1, 2]], names=["u", "w", "v"])
    assert equal.message == "u and v are equal"


def test_an_input_that_is_the_target_is_found_in_other_units_and_next_to_outliers():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(300)
    x = np.column_stack([rng.uniform(size=(300, 2)), 32 - 1.8 * y])
    y[7] = 1e6
    found = {each.kind: each for each in find_oddities(x, y, ("east", "north", "fahrenheit", "celsius"))}
    assert found[OddityKind.TARGET_IN_INPUTS].columns == ("fahrenheit", "celsius")
    assert "leave out an input that is not known before the target is" in found[OddityKind.TARGET_IN_INPUTS].message
    assert OddityKind.EQUAL_COLUMNS not in found
    twice = np.column_stack([x, 2 * x[:, 2]])
    assert {OddityKind.TARGET_IN_INPUTS, OddityKind.EQUAL_COLUMNS} <= kinds(twice, y)
    assert OddityKind.TARGET_IN_INPUTS not in kinds(x, x[:, 2] + 0.01 * rng.standard_normal(300))


def test_a_target_of_two_values_is_found_and_one_of_three_or_one_is_not():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(300, 2)), rng.integers(2, size=300).astype(float)
    (found,) = find_oddities(x, y, ("east", "north", "sold"))
    assert found.kind is OddityKind.TWO_TARGET_VALUES
    assert found.message == "sold is only 0 or 1: predictions are numbers, not classes"
    assert not kinds(x, y + (np.arange(300) == 4)) and not kinds(x, np.zeros(300))


@pytest.mark.parametrize("step", [1, 10, 0.5])
@pytest.mark.parametrize("ordered", [True, False])
def test_row_numbers_are_found_in_any_order_with_missing_rows_and_after_scaling(step, ordered):
    rng = np.random.default_rng(0)
    number = np.arange(1000.0)[rng.uniform(size=1000) < 0.8] * step + 17
    number = number if ordered else rng.permutation(number)
    x = np.column_stack([rng.standard_normal(len(number)), number])
    (found,) = find_oddities(x, names=["a", "id"])
    assert (found.kind, found.columns) == (OddityKind.ID_COLUMN, ("id",))
    assert ("in row order" in found.message) == ordered
    low, high = x.min(axis=0), x.max(axis=0)
    scaled = (2 * (x - low) / (high - low) - 1).astype(np.float32)
    assert kinds(scaled) == {OddityKind.ID_COLUMN}


def test_distinct_identifiers_are_found_if_random_draws_would_repeat_one():
    rng = np.random.default_rng(0)
    numbers = rng.choice(np.arange(100_000, 1_000_000), 10_000, replace=False).astype(float)
    assert kinds(np.column_stack([numbers, rng.uniform(size=10_000)])) == {OddityKind.ID_COLUMN}


def test_grids_designs_and_a_single_time_column_are_not_row_numbers():
    rng = np.random.default_rng(0)
    rows, columns = np.meshgrid(np.arange(30.0), np.arange(30.0))
    assert not kinds(np.column_stack([rows.ravel(), columns.ravel()]))
    assert not kinds(np.arange(500.0)[:, None])
    assert not kinds(np.column_stack([rng.permutation(100) / 99.0 for _ in range(3)]))


def test_constant_columns_are_reported_next_to_missing_values_and_infinities():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 4))
    x[:, 1], x[:, 3] = 3.0, np.nan
    x[::5, 0], x[1, 2] = np.nan, np.inf
    (found,) = find_oddities(x, names=["a", "b", "c", "d"])
    assert found.message == "b is constant (3); d is constant (no values)"


@pytest.mark.parametrize("shape", [(0, 2), (1, 3), (2, 1), (5, 0), (9, 2)])
def test_tables_with_very_few_rows_raise_nothing_and_report_no_outliers(shape):
    assert not kinds(np.random.default_rng(0).standard_normal(shape), np.zeros(shape[0])) & {
        OddityKind.OUTLIER_IN_INPUTS, OddityKind.EQUAL_COLUMNS, OddityKind.ID_COLUMN,
    }  # fmt: skip


def test_arguments_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match="expected rows and columns"):
        find_oddities(np.zeros(5))
    with pytest.raises(ValueError, match="one row for each of the 5 rows"):
        find_oddities(np.zeros((5, 2)), np.zeros(4))
    with pytest.raises(ValueError, match="expected 2, one for each column"):
        find_oddities(np.zeros((5, 2)), names=["a"])


def test_the_cost_does_not_grow_with_the_square_of_the_number_of_rows():
    x = np.random.default_rng(0).standard_normal((200_000, 4))
    x[::2] = x[1::2] + 1e-9
    started = time.process_time()
    assert kinds(x) == {OddityKind.NEAR_DUPLICATE_ROWS}
    assert time.process_time() - started < 10
