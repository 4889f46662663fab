"""The advice on models: an average over similar results of other data, which says what it is."""

from __future__ import annotations

import math

import pytest
from typer.testing import CliRunner

import apviz
from apviz.advice.models import OF_THE_MEAN, Judged, expected, stored
from apviz.cli import app

ANY = {"package": "", "most_inputs": None}
MODELS = {
    "exact": ANY,
    "trees": {"package": "lightgbm", "most_inputs": None},
    "maps": {"package": "", "most_inputs": 3},
}


def result(data, n, d, budget, **nll):
    done = {name: value for name, value in nll.items() if value is not None}
    return Judged(data, n, d, budget, nll, dict.fromkeys(done, budget / 2), dict.fromkeys(done, 5e7))


def test_a_loss_is_the_share_of_the_gain_over_the_mean_that_a_model_leaves():
    losses = result("a", 1000, 5, 10.0, exact=OF_THE_MEAN - 1.0, trees=OF_THE_MEAN - 0.75, maps=9.0).losses()
    assert losses == pytest.approx({"exact": 0.0, "trees": 0.25, "maps": 1.0})


def test_a_model_that_did_not_finish_loses_all():
    assert result("a", 1000, 5, 10.0, exact=None, trees=0.5).losses()["exact"] == 1.0


def test_results_with_similar_rows_decide():
    small = [result(data, 1_000, 5, 10.0, exact=0.0, trees=0.5) for data in "abc"]
    large = [result(data, 100_000, 5, 10.0, exact=1.0, trees=0.2) for data in "abc"]
    for n, best in ((1_200, "exact"), (80_000, "trees")):
        models, _ = expected(small + large, n, 5, 10.0, MODELS)
        assert models[0].name == best


def test_far_from_all_results_the_nearest_ones_decide():
    small = [result(data, 1_000, 5, 10.0, exact=0.0, trees=0.5) for data in "abc"]
    large = [result(data, 100_000, 5, 10.0, exact=1.0, trees=0.2) for data in "abc"]
    models, _ = expected(small + large, 10**9, 5, 10.0, MODELS)
    assert models[0].name == "trees" and models[0].loss == pytest.approx(0.0, abs=1e-6)


def test_of_models_that_are_as_good_the_faster_one_comes_first():
    nll, seconds = {"exact": 0.0, "trees": 0.005}, {"exact": 9.0, "trees": 0.1}
    judged = [Judged(data, 1_000, 5, 10.0, nll, seconds, {"exact": 1e8, "trees": 1e7}) for data in "abc"]
    models, _ = expected(judged, 1_000, 5, 10.0, MODELS)
    assert [each.name for each in models] == ["trees", "exact"]
    assert models[0].seconds == pytest.approx(0.1)


def test_a_model_for_few_inputs_is_left_out_with_its_reason():
    judged = [result(data, 1_000, 2, 10.0, exact=0.5, maps=0.0) for data in "abc"]
    assert expected(judged, 1_000, 2, 10.0, MODELS)[0][0].name == "maps"
    models, left_out = expected(judged, 1_000, 8, 10.0, MODELS)
    assert models[0].name == "exact" and left_out["maps"] == "takes up to 3 inputs, not 8"


def test_a_model_with_results_on_one_data_set_alone_is_not_advised():
    judged = [result(data, 1_000, 5, 10.0, exact=0.5) for data in "ab"] + [
        result("c", 1_000, 5, 10.0, exact=0.5, trees=0.0)
    ]
    models, left_out = expected(judged, 1_000, 5, 10.0, MODELS)
    assert [each.name for each in models] == ["exact"] and left_out["trees"] == "has too few results"


def test_a_table_unlike_all_results_is_said_to_be_a_guess():
    assert "this is a guess" in apviz.advise_models(10**9, 500, minutes=10**4).reason
    assert "guess" not in apviz.advise_models(1_000, 8, minutes=10 / 60).reason


def test_equal_inputs_are_to_be_merged_first_and_the_advice_is_for_what_is_left():
    advice = apviz.advise_models(50_500, 1, minutes=10 / 60, distinct=1_000)
    assert advice.headline.startswith("Merge rows with equal inputs first.")
    assert "50,500 rows have 1,000 distinct inputs" in advice.reason
    assert advice.models == apviz.advise_models(1_000, 1, minutes=10 / 60).models


def test_the_headline_names_the_model_its_library_and_its_seconds():
    assert apviz.advise_models(1_000, 8, minutes=10 / 60).headline.startswith("Use the exact GP by apviz: about ")


def test_more_minutes_do_not_make_a_model_slower_that_ends_by_itself():
    judged = [result(data, 1_000, 5, 10.0, exact=0.0) for data in "abc"]  # after 5 s of 10
    for seconds in (10.0, 300.0):
        assert expected(judged, 1_000, 5, seconds, MODELS)[0][0].seconds == pytest.approx(5.0)


def test_no_model_is_expected_to_take_longer_than_the_minutes():
    for minutes in (0.1, 1.0, 5.0):
        advice = apviz.advise_models(20_000, 9, minutes=minutes)
        assert all(0 < each.seconds <= 60 * minutes for each in advice.models)
        assert all(0 <= each.loss <= 1 and each.memory > 0 for each in advice.models)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n": 0, "d": 1}, "n must be a whole number"),
        ({"n": 5, "d": 0}, "d must be a whole number"),
        ({"n": 5, "d": 1, "minutes": 0}, "a positive number of processor minutes"),
        ({"n": 5, "d": 1, "minutes": math.nan}, "a positive number of processor minutes"),
        ({"n": 5, "d": 1, "distinct": 6}, "from 1 to n = 5"),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(settings, said):
    with pytest.raises(ValueError, match=said):
        apviz.advise_models(**settings)


def test_the_stored_results_name_data_sets_and_every_model_has_some():
    judged, models = stored()
    assert len({each.data for each in judged}) >= 8
    assert {name for each in judged for name in each.nll} <= set(models)


def test_the_command_recommends_a_model_before_a_method(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b,y\n" + "".join(f"{i % 20},{i % 7},{(i % 20) ** 0.5 + i % 7}\n" for i in range(400)))
    done = CliRunner().invoke(app, ["advise", str(path), "--target", "y", "--minutes", "0.2"])
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert said.index("results on other data") < said.index("short tests on this machine")
