"""The choice of a system: its settings, and the plain values of a job."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard import address
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.system_choice import SystemChoice, dataset_label
from apviz.dashboard.settings.systems import BY_HAND, SystemSpec


def test_another_data_set_has_its_own_number_of_rows():
    """The rows of a small table were once kept for a photograph."""
    system = SystemChoice(Limits())
    system.dataset, system.n = "china-profile", 100
    system.dataset = "china"
    assert system.n == 1712


def test_data_sets_are_listed_by_size_with_their_subject():
    system = SystemChoice(Limits())
    names = system.param.dataset.objects
    assert names.index("diabetes") < names.index("china")
    label = dataset_label(system, "china")
    assert label.startswith("china: A photograph") and label.endswith("273,280 rows")


def test_several_seeds_are_accepted_and_refused_where_one_is_needed():
    system = SystemChoice(Limits())
    assert address.apply("seed=0,7", [system]) == [] and system.seed == [0, 7]
    assert system.spec(first_seed=True).seed == 0
    with pytest.raises(ValueError, match="this page solves for one seed, and the seeds are 0, 7"):
        system.spec()
    (problem,) = address.apply("seed=-1,2", [system])
    assert "whole numbers from 0, separated by commas" in problem


def test_another_seed_splits_the_data_differently_and_keeps_the_hyperparameters():
    spec = SystemSpec("china", 200, source=BY_HAND)
    loaded = spec.build(Limits())
    other = spec.at_seed(loaded, 3)
    assert other.hyperparameters is loaded.hyperparameters and other.system.seed == 3
    assert not other.data.train_x.equal(loaded.data.train_x)


def test_a_smaller_data_set_reduces_the_number_of_rows():
    system = SystemChoice(Limits())
    assert system.n == 1712
    system.dataset = "china-profile"
    assert system.n == 512


@pytest.mark.parametrize(("most", "n"), [(500, 500), (1712, 1712), (5000, 1712)])
def test_the_first_system_is_within_the_limit(most, n):
    limits = Limits(max_n=most)
    system = SystemChoice(limits)
    assert system.n == n
    system.spec().check(limits)


def test_a_system_at_another_noise_loads_nothing_again():
    spec = SystemSpec("china", 200, source=BY_HAND, noise=0.02)
    loaded = spec.build(Limits())
    assert spec.at_noise(loaded, 1) is loaded
    tenth = spec.at_noise(loaded, 0.1)
    assert tenth.data is loaded.data and tenth.system.noise == pytest.approx(0.002)
    assert "0.1 times its noise" in tenth.hyperparameters.provenance


def test_lengthscales_that_are_not_numbers_are_rejected_with_the_reason():
    with pytest.raises(ValueError, match="the lengthscale must be one number, or one per input, .* got 'wide'"):
        SystemChoice(Limits(), lengthscale="wide").spec()
