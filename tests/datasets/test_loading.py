import dataclasses

import numpy as np
import pytest
import torch

from apviz import datasets
from apviz.datasets.bundled import grid_shape, grid_stride
from apviz.datasets.loading import check_size
from apviz.datasets.preprocessing import RawTable, train_size

PAPER = {
    "sgemm": (241_600, 14),
    "airquality": (382_168, 13),
    "3droad": (434_874, 3),
    "song": (515_345, 90),
    "buzz": (583_250, 77),
    "houseelectric": (2_049_280, 11),
    "gassensors": (4_178_504, 17),
}


def test_cards_have_the_sizes_in_the_table_of_the_paper():
    assert {name: (datasets.card(name).n, datasets.card(name).d) for name in PAPER} == PAPER
    assert list(datasets.cards())[:7] == list(PAPER)


def test_every_card_states_its_source_and_our_interpretation():
    for name, card in datasets.cards().items():
        assert card.name == name and card.page.startswith("https://")
        assert card.citation and card.licence and card.documented and card.reading
        assert card.urls or card.how_to_get


def test_hyperparameters_have_one_lengthscale_per_input():
    have = {name: card for name, card in datasets.cards().items() if card.hyperparameters}
    assert set(have) == set(datasets.registry) - {"song", "buzz", "gassensors"}
    for card in have.values():
        found = card.hyperparameters
        assert found.kernel == "matern52" and len(found.lengthscale) == card.d and found.provenance
        assert min(*found.lengthscale, found.outputscale) > 0 and found.noise >= 1e-4


def test_an_error_about_an_unknown_name_lists_close_matches_and_all_names():
    with pytest.raises(ValueError, match="Did you mean airquality.*There are: sgemm, airquality"):
        datasets.load("air-quality")
    with pytest.raises(ValueError, match="No data set is called 'zzz'. There are: "):
        datasets.card("zzz")


def test_an_error_about_a_missing_data_set_says_what_to_do(empty_folders):
    with pytest.raises(datasets.DatasetUnavailable) as caught:
        datasets.load("sgemm")
    message = str(caught.value)
    assert "apviz datasets fetch sgemm" in message and "sgemm_product_dataset.zip" in message
    assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(datasets.DatasetUnavailable, match="No official archive.*bike/data.csv.gz"):
        datasets.load("bike")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 0}, "n = 0: expected a positive integer"),
        ({"n": 2.5}, "n = 2.5: expected a positive integer"),
        ({"seed": "a"}, "seed = 'a': expected an integer"),
        ({"dtype": torch.int64}, "expected torch.float32 or torch.float64"),
        ({"n": 10**6}, "sgemm has 193,280 training rows"),
    ],
)
def test_settings_are_validated_before_any_file_is_searched(empty_folders, settings, message):
    with pytest.raises(ValueError, match=message):
        datasets.load("sgemm", **settings)


@pytest.mark.parametrize(("n", "d"), [(11, 2), (12, 3)])
def test_a_table_of_the_wrong_size_is_rejected_with_both_sizes(n, d):
    card = dataclasses.replace(datasets.card("sgemm"), n=12, d=2, d_raw=2)
    rng = np.random.default_rng(0)
    raw = RawTable(rng.normal(size=(n, d)), rng.normal(size=n), ("a", "b", "c")[:d], "y")
    with pytest.raises(ValueError, match=f"expected n = 12 and d = 2 .* got n = {n}, d = {d} "):
        check_size(raw, card, "here")
    check_size(RawTable(raw.inputs[:, :2], raw.target, ("a", "b"), "y"), dataclasses.replace(card, n=n), "here")


def test_diabetes_needs_no_file(empty_folders):
    data = datasets.load("diabetes", n=100)
    assert data.train_x.shape == (100, 10) and data.test_x.shape == (89, 10)
    assert data.feature_names[2] == "bmi" and data.card.n == 442 and data.seed == 0


def test_thinning_keeps_the_fewest_pixels_that_give_n_training_rows():
    assert grid_stride(None) == 1 and grid_stride(13_696) == 4 and grid_shape(4) == (107, 160)
    for n in (1, 50, 1_000, 13_696, 13_697, 218_624):
        stride = grid_stride(n)
        assert train_size(np.prod(grid_shape(stride))) >= n
        assert train_size(np.prod(grid_shape(stride + 1))) < max(n, 10)


def test_thinned_pixels_of_china_still_form_an_image():
    pytest.importorskip("PIL")
    whole = datasets.load("china")
    assert len(whole.train_x) + len(whole.test_x) == 273_280 and whole.grid_stride == 1
    data = datasets.load("china", n=13_696, dtype=torch.float64)
    assert data.grid_stride == 4 and data.grid_shape == (107, 160) and len(data.train_x) == 13_696
    x, y = torch.cat([data.train_x, data.test_x]), torch.cat([data.train_y, data.test_y])
    row, column = (((x + 1) / 2) * (torch.tensor(data.grid_shape) - 1)).round().long().T
    picture = torch.full(data.grid_shape, torch.nan, dtype=torch.float64)
    picture[row, column] = y
    assert not picture.isnan().any()
    from sklearn.datasets import load_sample_image

    pixels = torch.tensor(load_sample_image("china.jpg")[::4, ::4] @ np.array([0.299, 0.587, 0.114]))
    assert torch.allclose(picture, (pixels - pixels.mean()) / pixels.std())


def test_even_one_pixel_can_be_requested():
    pytest.importorskip("PIL")
    assert len(datasets.load("china", n=1).train_x) == 1


#: files that take seconds to read
LARGE = [pytest.param(name, marks=pytest.mark.slow) for name in ("airquality", "keggundirected", "earth")]


@pytest.mark.parametrize("name", ["sgemm", "bike", "protein", "kin40k", *LARGE])
def test_real_data_have_the_right_size_and_scale(name, need_file):
    need_file(name)
    if name == "earth":
        pytest.importorskip("h5py")
    data = datasets.load(name, dtype=torch.float64)
    n, d = data.card.n, data.card.d
    assert len(data.feature_names) == d
    assert data.train_x.shape == (int(0.8 * n), d) and data.test_x.shape == (n - int(0.8 * n), d)
    x, y = torch.cat([data.train_x, data.test_x]), torch.cat([data.train_y, data.test_y])
    assert torch.allclose(x.amin(0), -torch.ones(d).double()) and torch.allclose(x.amax(0), torch.ones(d).double())
    assert abs(y.mean()) < 1e-10 and abs(y.std() - 1) < 1e-10


def test_air_quality_has_the_papers_inputs_in_the_papers_order(need_file):
    need_file("airquality")
    names = ["month", "hour", "SO2", "NO2", "CO", "O3", "TEMP", "PRES", "DEWP", "RAIN", "wd", "WSPM", "station"]
    assert list(datasets.load("airquality", n=10).feature_names) == names
