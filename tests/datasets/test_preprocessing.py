import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apviz.datasets import card
from apviz.datasets.preprocessing import RawTable, prepare, shuffle, train_size


def table(rows=50, inputs=3, seed=0):
    rng = np.random.default_rng(seed)
    names = tuple(f"x{i}" for i in range(inputs))
    return RawTable(rng.normal(size=(rows, inputs)), rng.normal(size=rows), names, "y")


def prepared(raw, seed=0, n=None, dtype=torch.float64):
    return prepare(raw, card("diabetes"), seed=seed, n=n, dtype=dtype, source="here")


@given(seed=st.integers(0, 2**31), rows=st.integers(1, 300))
@settings(max_examples=30, deadline=None)
def test_the_shuffle_equals_that_of_the_global_generator_and_does_not_advance_it(seed, rows):
    before = torch.get_rng_state()
    ours = shuffle(rows, seed)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(seed)
    assert torch.equal(ours, torch.randperm(rows))
    torch.set_rng_state(before)


@given(rows=st.integers(10, 200), inputs=st.integers(1, 6), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_inputs_span_minus_one_to_one_and_the_target_is_standardised(rows, inputs, seed):
    data = prepared(table(rows, inputs, seed), seed)
    x, y = torch.cat([data.train_x, data.test_x]), torch.cat([data.train_y, data.test_y])
    assert torch.allclose(x.amin(0), -torch.ones(inputs).double())
    assert torch.allclose(x.amax(0), torch.ones(inputs).double())
    assert abs(y.mean()) < 1e-12 and abs(y.std(correction=1) - 1) < 1e-12
    assert len(data.train_x) == train_size(rows) == int(0.8 * rows)


def test_rows_keep_their_targets_through_the_shuffle():
    raw = dataclasses.replace(table(60, 1), target=table(60, 1).inputs[:, 0] * 3 + 1)
    data = prepared(raw, seed=5)
    slope = data.train_y.std() / data.train_x[:, 0].std()
    assert torch.allclose(data.train_y - data.train_y.mean(), slope * (data.train_x - data.train_x.mean(0))[:, 0])


def test_n_keeps_the_first_training_rows_and_all_test_rows():
    full, part = prepared(table()), prepared(table(), n=7)
    assert torch.equal(part.train_x, full.train_x[:7]) and torch.equal(part.train_y, full.train_y[:7])
    assert torch.equal(part.test_x, full.test_x)


def test_the_same_seed_gives_the_same_split_and_another_seed_another_split():
    assert torch.equal(prepared(table(), 1).train_x, prepared(table(), 1).train_x)
    assert not torch.equal(prepared(table(), 1).train_x, prepared(table(), 2).train_x)


def test_inputs_without_variance_are_dropped_with_their_names():
    raw = table()
    raw.inputs[:, 1] = 0.1  # its computed variance is not exactly zero
    data = prepared(raw)
    assert data.feature_names == ("x0", "x2") and data.train_x.shape[1] == 2


def test_dtype_is_respected():
    assert prepared(table(), dtype=torch.float32).train_x.dtype == torch.float32


def test_bad_values_are_counted_per_column():
    raw = table()
    raw.inputs[:3, 1] = np.nan
    raw.target[4] = np.inf
    with pytest.raises(ValueError, match=r"NaN or infinite values in: x1 \(3\), y \(1\)"):
        prepared(raw)


def test_too_few_rows_a_constant_target_and_constant_inputs_are_refused():
    with pytest.raises(ValueError, match="9 rows; at least 10"):
        prepared(table(9))
    with pytest.raises(ValueError, match="target y is constant"):
        prepared(dataclasses.replace(table(), target=np.full(50, 2.0)))
    with pytest.raises(ValueError, match="no input column varies"):
        prepared(dataclasses.replace(table(), inputs=np.ones((50, 3))))


def test_an_error_about_n_beyond_the_training_rows_states_their_number():
    with pytest.raises(ValueError, match="n = 41: here has 40 training rows"):
        prepared(table(), n=41)


@given(power=st.integers(-1000, 1000), seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_the_units_of_inputs_and_target_change_no_bit(power, seed):
    raw = table(seed=seed)
    other = dataclasses.replace(raw, inputs=np.ldexp(raw.inputs, power), target=np.ldexp(raw.target, power))
    with np.errstate(all="raise"):
        data, same = prepared(raw), prepared(other)
    assert torch.equal(data.train_x, same.train_x) and torch.equal(data.train_y, same.train_y)


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1.0, 1e200, 1e308])
def test_huge_and_tiny_targets_are_standardised(unit):
    raw = table()
    largest = np.abs(raw.target).max()
    data = prepared(dataclasses.replace(raw, target=raw.target / largest * unit))
    np.testing.assert_allclose(data.train_y, prepared(raw).train_y, rtol=1e-10)


def test_inputs_whose_range_overflows_are_scaled_too():
    raw = table()
    huge = raw.inputs / np.abs(raw.inputs).max(axis=0) * 1.7e308
    np.testing.assert_allclose(
        prepared(dataclasses.replace(raw, inputs=huge)).train_x, prepared(raw).train_x, rtol=1e-9
    )


def test_a_comparison_predicts_ten_thousand_of_many_test_rows_and_states_their_number():
    data = prepared(table(rows=60_000), n=50)
    fewer = data.for_comparison()
    assert torch.equal(fewer.test_x, data.test_x[:10_000]) and torch.equal(fewer.test_y, data.test_y[:10_000])
    assert fewer.notes == (*data.notes, "test errors are of the first 10,000 of 12,000 test rows, which were shuffled")
    all_rows = prepared(table(rows=60_000))
    assert all_rows.for_comparison() is all_rows
