"""Options of an experiment are validated on entry, and different options never share a folder."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
import torch

from apviz.experiments import EXPERIMENTS, Options
from apviz.experiments.running import folder_of


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 199}, "n must be a whole number, at least 200, got 199"),
        ({"n": 300.0}, "n must be a whole number, at least 200, got 300.0"),
        ({"seeds": 0}, "seeds must be a whole number, at least 1, got 0"),
        ({"device": "gpu"}, "device must be auto, cpu or cuda, got 'gpu'"),
    ],
)
def test_an_error_about_an_option_states_the_accepted_range(settings, message):
    with pytest.raises(ValueError, match=message):
        Options(**settings)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_rejected_at_once():
    with pytest.raises(ValueError, match="device must be auto or cpu, because PyTorch finds no GPU, got 'cuda'"):
        Options(device="cuda")


def test_different_sizes_data_sets_and_experiments_have_separate_folders(tmp_path):
    options = Options(out=tmp_path)
    several = [options, replace(options, n=200), replace(options, n=2000), replace(options, dataset="china"),
               replace(options, n=200, dataset="china"), replace(options, n=200, device="cpu")]  # fmt: skip
    folders = [folder_of(experiment, each) for experiment in EXPERIMENTS.values() for each in several]
    assert all(a != b for a, b in combinations(folders, 2))
    assert all(folder.parent == tmp_path for folder in folders)
