"""The data of an experiment: scaling with n, marked stand-ins, and helpful errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

import apviz
from apviz.datasets import DatasetUnavailable
from apviz.experiments import EXPERIMENTS, Options, run, sources
from apviz.experiments.sources import hyperparameters_of, load, name_of, pairs

#: preconditioner and batch sizes in the appendix: training rank, test rank, batch size; and rows
PAPER = {
    "sgemm": (500, 500, 6000, 241_600),
    "airquality": (500, 500, 6000, 382_168),
    "3droad": (500, 500, 6000, 434_874),
    "song": (500, 500, 4000, 515_345),
    "buzz": (500, 500, 4000, 583_250),
    "houseelectric": (300, 500, 1000, 2_049_280),
    "gassensors": (150, 300, 500, 4_178_504),
}
CHINA = Options(n=2000, dataset="china")


@pytest.mark.parametrize("name", PAPER)
def test_batch_sizes_and_ranks_are_the_same_share_of_the_training_rows_as_in_the_paper(name):
    training_rank, test_rank, batch_size, rows = PAPER[name]
    source = load(name, name, CHINA)
    share = 2000 / (0.8 * rows)
    for ours, full in ((source.batch_size, batch_size), (source.training_rank, training_rank),
                       (source.test_rank, test_rank)):  # fmt: skip
        assert abs(ours - max(1, full * share)) <= 0.5 + 1e-3
    assert source.stands_in_for == name and source.heading == f"china (for {name}), n = 2,000"


@pytest.mark.parametrize("name", PAPER)
def test_at_full_size_they_equal_those_of_the_paper(name):
    source = load(name, name, CHINA)
    whole = replace(source, full_n=source.n)
    assert (whole.training_rank, whole.test_rank, whole.batch_size) == PAPER[name][:3]


def test_a_data_set_of_the_paper_is_not_called_a_stand_in():
    source = load("china", "diabetes", Options(n=300))
    assert source.stands_in_for == "" and source.heading == "china, n = 300"


def test_at_a_reduced_n_the_number_of_test_rows_is_limited(monkeypatch):
    monkeypatch.setattr(sources, "TEST_ROWS", 70)
    assert len(load("china", "china", Options(n=300)).data.test_x) == 70
    assert len(load("diabetes", "diabetes", Options()).data.test_x) == 89  # of 442


def test_more_rows_than_exist_gives_all():
    source = load("sgemm", "diabetes", Options(n=10_000, dataset="diabetes"))
    assert source.n == 353 and source.heading == "diabetes (for sgemm), n = 353"


def test_every_seed_has_its_own_split():
    one, other = (load("china", "china", Options(n=300), seed).data for seed in (0, 1))
    assert not one.train_x.equal(other.train_x)


def test_the_set_of_the_paper_is_used_if_available_and_a_requested_one_always(monkeypatch):
    monkeypatch.setattr(apviz.datasets, "is_here", {"3droad"}.__contains__)
    assert name_of("3droad", "airquality", Options()) == "3droad"
    assert name_of("buzz", "protein", Options()) == "protein"
    assert name_of("3droad", "airquality", CHINA) == "china"


def test_a_data_set_replaces_the_pair_to_which_it_belongs():
    wanted = [("3droad", "china"), ("houseelectric", "diabetes")]
    assert pairs(wanted, Options()) == wanted
    assert pairs(wanted, Options(dataset="diabetes")) == wanted[1:]
    assert pairs([("a", "b"), *wanted], CHINA) == wanted[:1]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_without_data_an_experiment_says_how_to_get_it_and_names_an_alternative(name, monkeypatch, tmp_path):
    for variable in ("APVIZ_DATA", "APVIZ_CACHE"):
        (tmp_path / variable).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / variable))
    with pytest.raises(DatasetUnavailable, match="apviz datasets fetch .* APVIZ_DATA folder .* --dataset; china"):
        list(run(EXPERIMENTS[name], Options(n=200, out=tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_an_error_about_missing_hyperparameters_says_how_to_get_them():
    with pytest.raises(ValueError, match="song has no hyperparameters on its card; train some with `apviz experiment"):
        hyperparameters_of("song")


def test_a_table_of_all_sets_has_the_available_ones_of_the_paper(monkeypatch):
    monkeypatch.setattr(apviz.datasets, "is_here", {"sgemm", "song", "china"}.__contains__)
    assert sources.names(Options()) == ["sgemm", "song"]
    assert sources.names(Options(), trained=True) == ["sgemm"]  # song was never published
    assert sources.names(CHINA, trained=True) == ["china"]


def test_in_a_table_of_all_sets_a_requested_set_replaces_the_first():
    assert sources.load_named("china", CHINA, 0).heading == "china (for sgemm), n = 2,000"
