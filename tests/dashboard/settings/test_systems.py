"""The choice of a system: its settings, and the plain values of a job."""

from __future__ import annotations

import pytest

pytest.importorskip("panel")

from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.system_choice import SystemChoice
from apviz.dashboard.settings.systems import BY_HAND, SystemSpec


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
