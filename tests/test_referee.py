"""The referee: its scores against closed forms, its exact posterior, its budgets, its entrants, and its page."""

from __future__ import annotations

import json
import math
import multiprocessing
import re

import numpy as np
import psutil
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from apviz.hyperparameters import Hyperparameters
from benchmarks.referee import page, readme, tables
from benchmarks.referee.entrants import ENTRANTS, entrant, missing
from benchmarks.referee.entrants.features import with_prior
from benchmarks.referee.entrants.fourier_features import sampler
from benchmarks.referee.reference import exact
from benchmarks.referee.results import FOLDER, Asked, cells, keep
from benchmarks.referee.running import run, watch
from benchmarks.referee.scores import distance, scores
from benchmarks.referee.task import Clock, DoesNotApply, Prediction, Task

H = Hyperparameters("matern52", (0.4, 0.7), 1.5, 0.05, 0.3)
OUTSIDERS = """
import numpy as np
from benchmarks.referee.task import Prediction

def zero(task):
    return Prediction(np.zeros(len(task.z)), np.ones(len(task.z)), 0.1)

class Endless:
    def predict(self, task, clock):
        while len(task.y) > 100:
            np.sqrt(np.ones(1000))
        yield zero(task)

class FirstThenEndless:
    def predict(self, task, clock):
        yield zero(task)
        while len(task.y) > 100:
            np.sqrt(np.ones(1000))

class Honest:
    def predict(self, task, clock):
        yield zero(task)
"""


def some_task(n: int = 60, seed: int = 0) -> Task:
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, (n, 2)), rng.uniform(-1, 1, (7, 2))
    return Task(x, np.sin(3 * x[:, 0]) + 0.2 * rng.standard_normal(n), z, H)


def by_scikit_learn(task: Task) -> Prediction:
    kernel = ConstantKernel(H.outputscale) * Matern(list(H.lengthscale), nu=2.5)
    gp = GaussianProcessRegressor(kernel, alpha=H.noise, optimizer=None).fit(task.x, task.y - H.mean)
    mean, sd = gp.predict(task.z, return_std=True)
    return Prediction(mean + H.mean, sd**2, H.noise)


# --- scores -----------------------------------------------------------------------------------------------------------


def test_the_crps_is_the_integral_of_the_squared_distance_of_distribution_functions():
    forecast, y = Prediction(np.array([0.3, -1.0]), np.array([0.5, 2.0]), 0.25), np.array([1.1, -1.4])
    parts = []
    for mean, variance, seen in zip(forecast.mean, forecast.variance + forecast.noise, y, strict=True):
        cdf = norm(mean, math.sqrt(variance)).cdf
        below = quad(lambda t, cdf=cdf: cdf(t) ** 2, -30, seen)[0]
        parts.append(below + quad(lambda t, cdf=cdf: (1 - cdf(t)) ** 2, seen, 30)[0])
    assert scores(forecast, y)["crps"] == pytest.approx(np.mean(parts), rel=1e-7)


def test_the_nll_is_the_mean_log_density_of_observations_with_noise():
    rng = np.random.default_rng(1)
    mean, variance, y = rng.normal(size=20), rng.uniform(0.1, 2, 20), rng.normal(size=20)
    expected = -norm.logpdf(y, mean, np.sqrt(variance + 0.3)).mean()
    assert scores(Prediction(mean, variance, 0.3), y)["nll"] == pytest.approx(expected, rel=1e-12)


def test_an_interval_covers_what_lies_within_1_96_standard_deviations():
    y = 2.0 * np.array([0.0, 1.95, -1.95, 1.97])
    found = scores(Prediction(np.zeros(4), np.full(4, 3.0), 1.0), y)
    assert found["coverage"] == 0.75
    assert found["width"] == pytest.approx(2 * 2 * norm.ppf(0.975))
    assert found["rmse"] == pytest.approx(math.sqrt(np.mean(y**2)))


@pytest.mark.parametrize(
    ("mean", "variance", "why"),
    [([0.0, math.nan], [1.0, 1.0], "not finite"), ([0.0, 0.0], [1.0, -1.0], "not positive"), ([0.0], [1.0], "shape")],
)
def test_a_forecast_that_is_none_gets_no_score(mean, variance, why):
    with pytest.raises(ValueError, match=why):
        scores(Prediction(np.array(mean), np.array(variance), 0.5), np.zeros(2))


def test_the_exact_posterior_is_at_distance_zero_from_itself_and_others_are_not():
    of = exact(some_task())[0]
    assert distance(of, of) == {"mean": [0.0, 0.0], "sd": [1.0, 1.0, 1.0]}
    moved = Prediction(of.mean + 2 * np.sqrt(of.variance), 9 * of.variance, of.noise)
    assert distance(moved, of)["mean"] == pytest.approx([2.0, 2.0])
    assert distance(moved, of)["sd"] == pytest.approx([3.0, 3.0, 3.0])


# --- the exact posterior, and entrants --------------------------------------------------------------------------------


def test_the_exact_posterior_is_scikit_learns_within_its_certificate():
    task = some_task()
    found, certificate = exact(task)
    off = distance(found, by_scikit_learn(task))
    assert off["mean"][1] <= certificate["mean"] + 1e-9
    assert off["sd"] == pytest.approx([1.0, 1.0, 1.0], abs=1e-7)


def test_features_predict_as_the_gp_whose_kernel_is_their_product():
    rng = np.random.default_rng(2)
    phi, at, y = rng.normal(size=(30, 5)), rng.normal(size=(4, 5)), rng.normal(size=30)
    k = 1.7 * phi @ phi.T + 0.2 * np.eye(30)
    cross = 1.7 * at @ phi.T
    mean, variance = with_prior(phi, y, at, 1.7, 0.2)
    assert mean == pytest.approx(cross @ np.linalg.solve(k, y))
    assert variance == pytest.approx(1.7 * (at**2).sum(1) - np.einsum("ij,ji->i", cross, np.linalg.solve(k, cross.T)))


@pytest.mark.parametrize(
    ("name", "in_mean", "in_sd"),
    [
        ("exact, apviz", 0.05, 0.05),
        ("Fourier (EFGP), apviz", 0.05, 0.05),
        ("SGPR, GPyTorch", 0.01, 0.01),
        ("Vecchia, GPBoost", 0.5, 0.1),
        ("VIF, GPBoost", 0.2, 0.05),
        ("Nyström, scikit-learn", 0.01, math.inf),
        ("subset of data, scikit-learn", 1e-6, 1e-6),
    ],
)
def test_with_few_rows_an_approximation_at_the_same_hyperparameters_is_near_the_exact_posterior(name, in_mean, in_sd):
    if missing(name):
        pytest.skip(f"{missing(name)} is not installed")
    task = some_task()
    off = distance(next(entrant(name).predict(task, Clock(60.0))), by_scikit_learn(task))
    assert off["mean"][1] <= in_mean
    assert max(abs(ratio - 1) for ratio in off["sd"]) <= in_sd


@pytest.mark.parametrize(("kernel", "nu"), [("matern12", 0.5), ("matern52", 2.5), ("rbf", math.inf)])
def test_products_of_fourier_features_are_the_kernel(kernel, nu):
    x, m = np.random.default_rng(3).normal(size=(4, 2)), 20_000
    phi = sampler(kernel, x, m, 0).transform(x)
    assert phi @ phi.T == pytest.approx(Matern(1.0, nu=nu)(x), abs=5 / math.sqrt(m))


def test_an_entrant_for_few_inputs_says_that_a_task_has_more():
    task = some_task()
    wide = Task(np.tile(task.x, 2), task.y, np.tile(task.z, 2), None)
    with pytest.raises(DoesNotApply, match="up to 3 inputs, not 4"):
        next(entrant("Fourier (EFGP), apviz").predict(wide, Clock(1.0)))


def test_an_unknown_entrant_is_named():
    with pytest.raises(ValueError, match="there is no entrant 'GPz'"):
        entrant("GPz")


def test_every_entrant_is_a_file_of_at_most_80_lines():
    from benchmarks.referee import entrants

    for file, _, _ in ENTRANTS.values():
        path = next(iter(entrants.__path__)) + f"/{file}.py"
        with open(path, encoding="utf-8") as lines:
            assert len(lines.readlines()) <= 80, path


# --- budgets and results ----------------------------------------------------------------------------------------------


def busy(pipe) -> None:
    pipe.send({"prediction": None, "seconds": 0.01, "wall": 0.01, "memory": 0})
    while True:
        pass


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_a_process_is_watched_until_its_budget_is_used_and_its_last_prediction_counts():
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=busy, args=(theirs,), daemon=True)
    child.start()
    try:
        found = watch(ours, psutil.Process(child.pid), 0.1, 60.0)
    finally:
        child.kill()
        child.join()
    assert found.outcome == "done" and found.seconds == 0.01
    assert not found.is_complete and re.match(r"not finished: stopped after .* of 0.1 s", found.note)


@pytest.mark.slow
def test_an_entrant_that_ignores_its_budget_is_stopped_and_said_so(tmp_path):
    (tmp_path / "outsiders.py").write_text(OUTSIDERS)
    endless, first, honest = (
        run(f"{tmp_path}/outsiders.py:{name}", some_task(200), 0.2)
        for name in ("Endless", "FirstThenEndless", "Honest")
    )
    assert endless.outcome.startswith("not finished: stopped after") and endless.prediction is None
    assert first.outcome == "done" and first.seconds < 0.2 and first.note.startswith("not finished: stopped after")
    assert not first.is_complete
    assert honest.outcome == "done" and honest.is_complete and not honest.note


def test_results_are_kept_and_read_again(tmp_path):
    asked = Asked("SVGP, GPyTorch", "china", "own", 1000, 0, 10.0)
    machine = {"processor": "P", "cores": 2, "memory_gib": 4.0, "python": "3.12", "versions": {"torch": "2"}}
    keep(asked, {"outcome": "done"}, machine, tmp_path)
    keep(Asked("SVGP, GPyTorch", "china", "own", 1000, 1, 10.0), {"outcome": "done"}, machine, tmp_path)
    assert [cell["machine"] for cell in cells(tmp_path)] == [0, 0]
    assert len(json.loads((tmp_path / "china.json").read_text())["machines"]) == 1


# --- the page ---------------------------------------------------------------------------------------------------------


def cell(entrant: str, nll: float | None, seconds: float = 1.0, seed: int = 0, track: str = "own", **more) -> dict:
    found = {
        "entrant": entrant, "data": "china", "track": track, "n": 1000, "seed": seed, "budget": 10.0, "rows": 1000,
        "inputs": 2, "test rows": 1000, "outcome": "done" if nll is not None else "not finished: stopped",
        "is_complete": True, **more,
    }  # fmt: skip
    if nll is None:
        return found
    scores = {"rmse": 0.3, "nll": nll, "coverage": 0.95, "width": 1.0, "crps": 0.1}
    return found | {"scores": scores, "seconds": seconds, "wall": seconds, "memory": 2**20}


def of_cells(*given: dict):
    return tables.medians(tables.tabulate(list(given)))


EXACT, VECCHIA = "exact, apviz", "Vecchia, GPBoost"


def test_a_gap_of_likelihood_is_a_loss_and_a_smaller_one_is_not():
    found = tables.losses(of_cells(cell(EXACT, 0.5), cell(VECCHIA, 0.3)))
    assert list(found["best"]) == [VECCHIA] and float(found["gap"][0]) == pytest.approx(0.2)
    assert tables.losses(of_cells(cell(EXACT, 0.305), cell(VECCHIA, 0.3))).empty


def test_what_is_not_finished_loses_to_what_is():
    found = tables.losses(of_cells(cell(EXACT, None), cell(VECCHIA, 2.0)))
    assert math.isinf(found["ours"][0])


def test_the_same_prediction_in_fewer_seconds_is_a_loss_too():
    found = tables.sooner(of_cells(cell(EXACT, 0.300, 4.0), cell(VECCHIA, 0.305, 1.0)))
    assert float(found["times"][0]) == 4.0
    assert tables.sooner(of_cells(cell(EXACT, 0.300, 4.0), cell(VECCHIA, 0.35, 1.0))).empty


def test_seconds_of_an_entrant_are_those_of_the_seeds_it_finished():
    found = of_cells(cell(EXACT, 0.1, 2.0), cell(EXACT, 0.2, 4.0, seed=1), cell(EXACT, None, seed=2))
    assert float(found["nll"][0]) == pytest.approx(0.2) and float(found["seconds"][0]) == pytest.approx(3.0)


def test_medians_are_over_seeds_and_a_seed_that_is_not_finished_is_infinite():
    found = of_cells(*(cell(EXACT, nll, seed=seed) for seed, nll in enumerate((0.1, 0.4, 0.3))))
    assert float(found["nll"][0]) == pytest.approx(0.3) and int(found["seeds"][0]) == 3
    found = of_cells(cell(EXACT, 0.1), cell(EXACT, None, seed=1), cell(EXACT, None, seed=2))
    assert math.isinf(found["nll"][0]) and found["outcome"][0].startswith("not finished")


def test_a_profile_ends_at_the_share_of_tasks_that_are_finished():
    one, two = cell(EXACT, 0.1), cell(EXACT, 0.2) | {"data": "bike"}
    curves = tables.profile(of_cells(one, two, cell(VECCHIA, 0.3), cell(VECCHIA, None) | {"data": "bike"}))
    assert curves[VECCHIA][0] == pytest.approx([0.2]) and curves[VECCHIA][1] == pytest.approx([0.5])
    assert curves[EXACT][1] == pytest.approx([0.5, 1.0])


def test_a_task_counts_once_all_entrants_were_measured():
    found = of_cells(cell(EXACT, 0.1), cell(VECCHIA, 0.3), cell(EXACT, 0.2) | {"data": "bike"})
    assert set(tables.complete(found, [EXACT, VECCHIA])["data"]) == {"china"}


def test_the_page_starts_with_losses_and_gives_no_number_to_what_is_not_finished(tmp_path):
    near = {"distance": {"mean": [0.01, 0.1], "sd": [0.9, 1.0, 1.1]}}
    machine = {"processor": "P", "cores": 2, "memory_gib": 4.0, "python": "3.12", "versions": {"torch": "2"}}
    for each in (cell(EXACT, 0.5), cell(VECCHIA, 0.3), cell(VECCHIA, 0.3, track="same", **near), cell("<b>", None)):
        asked = Asked(*(each[name] for name in ("entrant", "data", "track", "n", "seed", "budget")))
        keep(asked, each, machine, tmp_path)
    text = page.make(tmp_path, (EXACT, VECCHIA, "<b>")).read_text("utf-8")
    heads = re.findall(r"<h2>(.*?)</h2>", text)
    assert heads[0] == "Where apviz predicts worse than another model"
    assert '<td class="text" colspan="7">not finished: stopped</td>' in text
    assert "&lt;b&gt;" in text and '<td class="text"><b></td>' not in text
    assert "1,000 rows, 10 s, track own, 1 seed: china" in text and "track same" not in text.partition("</ul>")[0]


def test_the_table_of_the_readme_is_that_of_the_results():
    text = readme.README.read_text("utf-8")
    between = text.partition(readme.MARKS[0])[2].partition(readme.MARKS[1])[0].strip()
    assert between == readme.current(FOLDER), "run: python -m benchmarks.referee readme"


def test_the_table_of_the_readme_starts_with_the_largest_loss():
    lost = [cell(EXACT, 0.5, 2.0) | {"data": "bike"}, cell(VECCHIA, -0.25, 1.0) | {"data": "bike"}]
    found = readme.table(of_cells(cell(EXACT, 0.1), cell(VECCHIA, 0.3), *lost)).splitlines()
    assert found[2] == "| bike | 1,000 | 2 | 10 s | Vecchia, GPBoost −0.250 (1 s) | 0.500 (2 s) |"
    assert found[3].endswith("| exact, apviz 0.100 (1 s) | 0.100 (1 s) |")


def test_a_folder_without_results_says_what_to_run(tmp_path):
    with pytest.raises(ValueError, match=r"python -m benchmarks\.referee"):
        page.make(tmp_path)
