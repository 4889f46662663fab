import gzip
import json

import pytest

from apviz import datasets


def record(step, **changes):
    values = {
        "method": "altproj",
        "dataset": "sgemmgpu",
        "kernel": "matern52",
        "noise_floor": 1e-4,
        "seed": 0,
        "step": step,
        "noise": 0.1 + step,
        "outputscale": 1.0,
        "mean": 0.0,
        "lengthscale": [0.1, 0.2],
        "solver_iterations": 2,
        "residual_trace": [1.0, step / 10],
    }
    return values | changes


@pytest.fixture
def runs(empty_folders):
    with gzip.open(empty_folders / "data" / "paper_runs.jsonl.gz", "wt") as lines:
        for row in (record(48), record(49), record(7, dataset="houseelectric", seed=3)):
            lines.write(json.dumps(row) + "\n")


def test_hyperparameters_are_those_after_a_step_and_residuals_those_of_the_next_record(runs):
    run = datasets.published_hyperparameters("sgemm")
    assert run.step == 48 and run.noise == 48.1 and run.lengthscale == (0.1, 0.2)
    assert datasets.published_hyperparameters("sgemm", step=49).residual_trace == (1.0, 4.9)
    assert "seed 0, step 48" in run.hyperparameters.provenance


def test_a_training_consists_of_all_its_steps_in_order(runs):
    assert [run.step for run in datasets.published_training("sgemm")] == [48, 49]
    assert [run.noise for run in datasets.published_training("houseelectric", seed=3)] == [7.1]
    with pytest.raises(ValueError, match="No published run for song"):
        datasets.published_training("song")


def test_an_error_about_an_unpublished_run_lists_the_published_ones(runs):
    with pytest.raises(ValueError, match="available for it: kernel=matern52 method=altproj seed=3"):
        datasets.published_hyperparameters("houseelectric")
    with pytest.raises(ValueError, match="available data sets: houseelectric, sgemm"):
        datasets.published_hyperparameters("song")
    with pytest.raises(ValueError, match="step = 50: this run of sgemm has steps 48 to 49"):
        datasets.published_hyperparameters("sgemm", step=50)


def test_without_the_file_the_error_says_what_to_do(empty_folders, monkeypatch):
    with pytest.raises(datasets.DatasetUnavailable, match="paper_runs.jsonl.gz"):
        datasets.published_hyperparameters("sgemm")
    monkeypatch.delenv("APVIZ_DATA")
    with pytest.raises(datasets.DatasetUnavailable, match="APVIZ_DATA is not set"):
        datasets.published_hyperparameters("sgemm")


@pytest.mark.parametrize("name", ["sgemm", "airquality", "3droad", "houseelectric"])
def test_the_cards_hold_the_published_values(name, need_file):
    need_file("paper_runs.jsonl.gz")
    run = datasets.published_hyperparameters(name, seed=3 if name == "houseelectric" else 0)
    card = datasets.card(name).hyperparameters
    assert (run.lengthscale, run.outputscale, run.noise, run.mean) == (
        card.lengthscale,
        card.outputscale,
        card.noise,
        card.mean,
    )
    assert card.provenance.startswith(run.hyperparameters.provenance)


def test_published_residuals_of_air_quality_are_read_from_the_file(need_file):
    need_file("paper_runs.jsonl.gz")
    found = datasets.published_hyperparameters("airquality", step=49).residual_trace
    assert found[:3] == pytest.approx((1.081, 0.889, 0.759), abs=6e-4)
