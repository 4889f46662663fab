"""The leaderboard: its checks of residuals, its failures, and the page made from results."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from scipy.spatial.distance import cdist
from typer.testing import CliRunner

from benchmarks.leaderboard import checking, readme
from benchmarks.leaderboard.__main__ import FOLDER, app, file_name, takes
from benchmarks.leaderboard.cells import measure
from benchmarks.leaderboard.checking import check, estimate, residual
from benchmarks.leaderboard.entrants import entrant
from benchmarks.leaderboard.growth import growth
from benchmarks.leaderboard.page import make
from benchmarks.leaderboard.plan import Asked
from benchmarks.leaderboard.problem import Problem
from benchmarks.leaderboard.readme import section
from benchmarks.leaderboard.systems import PUBLISHED, SYSTEMS, made
from benchmarks.leaderboard.tables import losses, medians, profile, standings, tabulate
from tests.textbook import CORRELATIONS

MINRES = str(Path(__file__).parents[1] / "benchmarks" / "leaderboard" / "minres.py") + ":Minres"
EFGP = MINRES.replace("minres.py:Minres", "efgp.py:EFGP")
OUTSIDERS = """
import subprocess
import sys
import time
import numpy as np

class Liar:
    name = "liar"
    def prepare(self, problem): pass
    def solve(self, b, tol): return np.zeros_like(b)

class Slow(Liar):
    name = "slow"
    def solve(self, b, tol):
        while tol != 0.5: np.sqrt(np.ones(1000))

class Asleep(Liar):
    name = "asleep"
    def solve(self, b, tol):
        time.sleep(0 if tol == 0.5 else 60)

class Forks(Liar):
    name = "forks"
    def solve(self, b, tol):
        code = "import time\\nwhile time.process_time() < 0.7: pass"
        if tol != 0.5: subprocess.run([sys.executable, "-c", code])
        return np.linalg.solve(self.k, b)
    def prepare(self, problem): self.k = problem.block(np.arange(len(problem.x)))

class Naps(Forks):
    name = "naps"
    def solve(self, b, tol):
        time.sleep(0 if tol == 0.5 else 0.5)
        return np.linalg.solve(self.k, b)

class Cold(Liar):
    name = "cold"
    def prepare(self, problem): raise OSError("no library")

class Broken(Liar):
    name = "broken"
    def solve(self, b, tol):
        if tol == 0.5: return b
        raise ZeroDivisionError("one over zero")

class Dense(Liar):
    name = "dense"
    def prepare(self, problem): self.k = problem.block(np.arange(len(problem.x)))
    def solve(self, b, tol): return np.linalg.solve(self.k, b)
"""


@pytest.fixture
def outsiders(tmp_path):
    path = tmp_path / "outsiders.py"
    path.write_text(OUTSIDERS)
    return lambda kind: f"{path}:{kind}"


def test_the_entries_given_to_an_entrant_equal_the_kernel_and_are_counted():
    given = made(3, "matern52", 0.5, 0.1)(100, 0)
    problem, rows = Problem(given), np.array([3, 50, 7])
    r = math.sqrt(5) * np.linalg.norm(given.x[:, None] - given.x[None], axis=2) / 0.5
    k = (1 + r + r**2 / 3) * np.exp(-r) + 0.1 * np.eye(100)
    np.testing.assert_allclose(problem.block(rows), k[np.ix_(rows, rows)], atol=1e-12)
    np.testing.assert_allclose(problem.columns(rows), k[:, rows], atol=1e-12)
    np.testing.assert_allclose(problem.columns_matmul(rows, given.b[rows]), k[:, rows] @ given.b[rows], atol=1e-9)
    np.testing.assert_allclose(problem.matmul(given.b[:, 0]), k @ given.b[:, 0], atol=1e-9)
    assert problem.work == pytest.approx(9e-4 + 0.03 + 0.03 + 1)
    w = np.linalg.solve(k, given.b)
    assert residual(given, w) < 1e-10 and residual(given, 0 * w) == pytest.approx(1)
    assert math.isnan(residual(given, w[:, :2])) and math.isnan(residual(given, w * np.inf))


#: data sets whose files take a second to read
LARGE = ("airquality", "keggundirected", "kin40k", "protein", "sgemm", "keggundirected, σ² × 0.1")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in SYSTEMS]
)
def test_every_system_has_the_requested_size_and_depends_on_the_seed(name):
    far = name in PUBLISHED or name.startswith("kegg")
    if far and name not in ("china", "diabetes") and "APVIZ_DATA" not in os.environ:
        pytest.skip(f"APVIZ_DATA is not set: no {name} here")
    one, other = (SYSTEMS[name](300, seed) for seed in (0, 1))
    assert one.x.shape == other.x.shape and one.b.shape == (len(one.x), 16) and len(one.x) <= 300
    assert not np.array_equal(one.x, other.x) and np.isfinite(one.x).all() and np.isfinite(one.b).all()
    assert len(one.lengthscale) == one.x.shape[1] and one.noise > 0


@pytest.mark.parametrize(("d", "kernel", "tol"), [(1, "matern12", 1e-2), (2, "matern52", 1e-3), (3, "rbf", 1e-2)])
def test_efgp_solves_the_dense_system(d, kernel, tol):
    given = made(d, kernel, 3.0, 0.1)(120, 0)
    solver = entrant(EFGP)
    solver.prepare(Problem(given))
    weights = solver.solve(given.b[:, :2].copy(), tol)
    k = CORRELATIONS[kernel](cdist(given.x / 3.0, given.x / 3.0)) + 0.1 * np.eye(120)
    left = np.linalg.norm(given.b[:, :2] - k @ weights, axis=0) / np.linalg.norm(given.b[:, :2], axis=0)
    assert left.mean() <= tol


@pytest.mark.parametrize("name", ["coloured, Fourier", "EFGP"])
def test_methods_for_few_inputs_are_not_asked_for_systems_of_many(name):
    name = EFGP if name == "EFGP" else name
    d = {"d = 2, lengthscale 2": True, "d = 10, lengthscale 4": False}
    assert {system: takes(Asked(name, system, 4_000, 0, 1.0)) for system in d} == d
    assert takes(Asked("CG", "d = 10, lengthscale 4", 4_000, 0, 1.0))


@pytest.mark.slow
def test_an_external_entrant_joins_by_a_file_and_is_measured_like_ours(tmp_path):
    run = ["run", "--entrant", MINRES, "--entrant", "auto", "--system", "d = 10, RBF, lengthscale 1", "--n", "300"]
    done = CliRunner().invoke(app, [*run, "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    (path,) = tmp_path.glob("*.json")
    cells = json.loads(path.read_text())["cells"]
    assert set(cells) == {"SciPy's MINRES | n 300 | seed 0", "auto | n 300 | seed 0"}
    for cell in cells.values():
        assert list(cell["reached"]) == ["0.1", "0.01", "0.001", "1e-06"] and "failure" not in cell
        assert all(each["residual"] < 1.05 * float(tol) and each["work"] > 0 for tol, each in cell["reached"].items())
        assert all(each["seconds"] > 0 and each["wall"] > 0 for each in cell["reached"].values())
    assert "seed" not in CliRunner().invoke(app, [*run, "--folder", str(tmp_path)]).output  # nothing runs again


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "failure"),
    [
        ("Liar", "not there: 1 where 0.1 was asked for"), ("Slow", "limit"),
        ("Broken", "error: ZeroDivisionError: one over zero"),
        ("Asleep", "hang: 0.0 s of the processor in 3 s"),
        ("Cold", "error: while it warmed up on 200 rows, OSError: no library"),
    ],
)  # fmt: skip
def test_every_kind_of_failure_is_recorded(outsiders, kind, failure):
    cell = measure(outsiders(kind), "d = 2, lengthscale 2", 200, 0, limit=1.0, hang=3.0 if kind == "Asleep" else None)
    assert cell["failure"] == failure and cell["reached"] == {}


@pytest.mark.slow
def test_seconds_are_cpu_time_including_that_of_child_processes(outsiders):
    forks, naps = (
        measure(outsiders(kind), "d = 2, lengthscale 2", 200, 0, 30.0, tolerances=[0.1]) for kind in ("Forks", "Naps")
    )
    assert list(forks["reached"]) == list(naps["reached"]) == ["0.1"]
    assert forks["reached"]["0.1"]["seconds"] >= 0.7
    assert naps["reached"]["0.1"]["wall"] - naps["reached"]["0.1"]["seconds"] > 0.3


def test_a_cell_stopped_by_a_limit_is_measured_again_with_a_larger_limit(tmp_path, monkeypatch):
    limits = []

    def failing(*args, **_):
        limits.append(args[4])
        return {"rows": 300, "limit": args[4], "reached": {}, "failure": "limit"}

    monkeypatch.setattr("benchmarks.leaderboard.__main__.measure", failing)
    run = ["run", "--entrant", "CG", "--system", "d = 10, RBF, lengthscale 1", "--n", "300", "--folder", str(tmp_path)]
    for limit in ("2", "2", "4", "3"):
        assert CliRunner().invoke(app, [*run, "--limit", limit]).exit_code == 0
    assert limits == [2, 4]


@pytest.mark.slow
def test_ctrl_c_ends_a_run_with_a_sentence_and_leaves_no_process(outsiders, tmp_path):
    words = ["--system", "d = 2, lengthscale 2", "--n", "200", "--folder", str(tmp_path / "to")]
    words = [*words, "--entrant", "CG", "--entrant", outsiders("Asleep")]
    command = [sys.executable, "-m", "benchmarks.leaderboard", "run", *words]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root, start_new_session=True) as run:
        try:
            assert run.stdout is not None and "| CG |" in run.stdout.readline()  # the next entrant sleeps
            children = psutil.Process(run.pid).children(recursive=True)
        finally:
            os.killpg(run.pid, signal.SIGINT)
        said, _ = run.communicate(timeout=60)
    assert run.returncode == 130 and said == "stopped; what is measured is kept, run it again to continue\n"
    assert psutil.wait_procs(children, timeout=60)[1] == []
    (path,) = (tmp_path / "to").glob("*")
    assert list(json.loads(path.read_text())["cells"]) == ["CG | n 200 | seed 0"]


def test_an_unknown_system_or_entrant_is_named():
    unknown = CliRunner().invoke(app, ["run", "--system", "moon"])
    assert unknown.exit_code == 2 and "there is no system moon" in " ".join(unknown.output.split())
    with pytest.raises(ValueError, match=r"an entrant is path/to/file.py:ClassName, or one of auto.* got 'moon'"):
        entrant("moon")


def given_and_weights(lengthscale=0.5, n=1_000):
    """Return a system, weights whose residual varies strongly between rows, and that residual by a dense matrix."""
    given = made(3, "matern52", lengthscale, 0.1)(n, 0)
    r = math.sqrt(5) * np.linalg.norm(given.x[:, None] - given.x[None], axis=2) / lengthscale
    k = (1 + r + r**2 / 3) * np.exp(-r) + 0.1 * np.eye(n)
    rng = np.random.default_rng(3)
    left = 0.01 * given.b * rng.gamma(2, 0.5, size=(n, 1))
    w = np.linalg.solve(k, given.b - left)
    return given, w, np.linalg.norm(left, axis=0) / np.linalg.norm(given.b, axis=0)


def test_a_residual_estimated_on_drawn_rows_has_the_stated_mean_and_standard_error():
    given, w, exact = given_and_weights()
    draws = [estimate(given, w, 250, entropy) for entropy in range(400)]
    squares, of = (np.array([draw.of for draw in draws]) ** power for power in (2, 1))
    # the estimate of ‖r‖² is unbiased; the mean of 400 draws has a standard error of a twentieth of their spread
    np.testing.assert_array_less(abs(squares.mean(axis=0) - exact**2), 4 * squares.std(axis=0) / 20)
    means, errors = np.array([(draw.residual, draw.error) for draw in draws]).T
    assert errors.mean() == pytest.approx(means.std(), rel=0.15) and draws[0].rows == 250
    np.testing.assert_allclose(np.array([draw.errors for draw in draws]).mean(axis=0), of.std(axis=0), rtol=0.2)
    assert 0.9 < (abs(means - exact.mean()) < 2 * errors).mean() < 0.99


@pytest.mark.parametrize("kernel", checking.CORRELATIONS)
def test_estimated_residuals_agree_with_exact_ones_for_every_kernel(kernel):
    given = made(3, kernel, 0.5, 0.1)(300, 0)
    w = np.random.default_rng(0).normal(size=given.b.shape)
    k = Problem(given).columns(np.arange(300))
    r = np.linalg.norm(given.b - k @ w, axis=0) / np.linalg.norm(given.b, axis=0)
    assert residual(given, w) == pytest.approx(r.mean(), rel=1e-12)
    nearly_all = estimate(given, w, 299, 7)
    assert nearly_all.of == pytest.approx(r, rel=0.01) and nearly_all.error < 0.01 * r.mean()


def test_every_check_draws_new_rows_and_the_results_record_their_seed():
    given, w, _ = given_and_weights(n=400)
    one, other = (check(given, w, entries=400 * 100) for _ in range(2))
    assert one.rows == 100 and one.residual != other.residual and one.entropy != other.entropy
    kept = json.loads(json.dumps(one.record()))
    again = estimate(given, w, kept["estimated"]["rows"], int(kept["estimated"]["entropy"], 16))
    assert again.residual == kept["residual"] and list(again.errors) == kept["estimated"]["errors"]
    assert check(given, w, entries=400 * 400).record() == {"residual": residual(given, w)}
    assert not check(given, w * np.nan, entries=400 * 100).reaches(1.0)


def test_two_standard_errors_count_against_a_method():
    assert checking.Checked(0.0104).reaches(0.01) and not checking.Checked(0.0106).reaches(0.01)
    assert checking.Checked(0.0099, error=0.0002, rows=9).reaches(0.01)
    near = checking.Checked(0.0099, error=0.0004, rows=9)
    assert not near.reaches(0.01) and str(near) == "0.0099 ± 0.0004 from 9 rows"


@pytest.mark.parametrize(("kind", "failure"), [("Dense", None), ("Liar", "not there: 1 ± ")])
def test_a_cell_with_many_rows_is_checked_on_a_sample(outsiders, monkeypatch, kind, failure):
    monkeypatch.setattr("benchmarks.leaderboard.cells.check", lambda given, w: check(given, w, 300 * 100))
    found = measure(outsiders(kind), "d = 2, lengthscale 2", 300, 0, 30.0, tolerances=[0.01])
    if failure:
        assert found["failure"].startswith(failure) and "from 100 rows where 0.01" in found["failure"]
    else:
        kept = found["reached"]["0.01"]
        assert kept["residual"] < 1e-6 and kept["estimated"]["rows"] == 100 and len(kept["estimated"]["of"]) == 16


def test_an_untried_size_shows_the_extrapolation_and_an_estimate_shows_its_error(tmp_path):
    cells = {}
    for n in (4_000, 8_000, 16_000, 100_000):
        for name in ("auto", "CG")[: 1 if n > 16_000 else 2]:
            cells |= cell(name, n=n, **dict.fromkeys(("0.1", "0.01", "0.001", "1e-06"), 1e-8 * n**2))
    large = cells["auto | n 100000 | seed 0"]
    sure = {"rows": 25_000, "error": 9e-5, "entropy": "1f", "of": [], "errors": []}
    large["reached"] = {"0.01": {"seconds": 100.0, "work": 3.0, "residual": 0.009, "estimated": sure}}
    large["loosest"] = large["tightest"] = 0.01
    (tmp_path / "one.json").write_text(json.dumps({"system": "china", "cells": cells}))
    text = make(tmp_path).read_text()
    assert '100<br><span class="muted">0.009 ± 1%, estimated from 25,000 rows' in text
    assert "not tried: about 100 s by its exponent" in text and "4,000 to 100,000" in text
    said = " ".join(section(tmp_path).split())
    assert "| *100* | 2.00 ± 0.00 (16,000) |" in said and "| 100 | 2.00 ± 0.00 (100,000) |" in said
    assert "From 100,000 rows on, residuals are estimated from 2,500,000,000 entries of K, to ± 1% or" in said
    cells |= cell("CG", n=32_000, **{"0.1": 1.0})  # it failed, so its extrapolation to more rows is known to be wrong
    (tmp_path / "one.json").write_text(json.dumps({"system": "china", "cells": cells}))
    assert "not tried: it failed with fewer rows" in make(tmp_path).read_text()
    assert "*100*" not in section(tmp_path)


def test_a_tolerance_is_measured_once_it_is_requested(tmp_path, monkeypatch):
    asked = []

    def solving(*args, tolerances, **_):
        asked.append(tolerances)
        return {"rows": 300, "limit": args[4], "reached": {}}

    monkeypatch.setattr("benchmarks.leaderboard.__main__.measure", solving)
    run = ["run", "--entrant", "CG", "--system", "d = 10, RBF, lengthscale 1", "--n", "300", "--folder", str(tmp_path)]
    for loosest in ("0.01", "0.01", "0.1"):
        done = CliRunner().invoke(app, [*run, "--tightest", "0.01", "--loosest", loosest])
        assert done.exit_code == 0, done.output
    assert asked == [[0.01], [0.1, 0.01]]


MACHINE = {"processor": "a test", "cores": 2, "memory_gib": 8.0, "python": "3", "versions": {"torch": "2"}}


def cell(entrant, seed=0, n=4000, work=10.0, **seconds):
    """Return a cell with the given seconds by tolerance, and `work` for each second."""
    reached = {tol: {"seconds": s, "work": work * s, "residual": 0.0} for tol, s in seconds.items()}
    key = f"{entrant} | n {n} | seed {seed}"
    found = {"entrant": entrant, "n": n, "seed": seed, "rows": n, "limit": 9.0, "tightest": 0.0, "machine": MACHINE}
    return {key: found | {"reached": reached} | ({} if len(seconds) == 4 else {"failure": "limit"})}


@pytest.fixture
def results(tmp_path):
    cells = {
        **cell("auto", **{"0.1": 2.0, "0.01": 4.0, "0.001": 6.0, "1e-06": 8.0}),
        **cell("auto", 1, **{"0.1": 4.0, "0.01": 4.0, "0.001": 6.0, "1e-06": 8.0}),
        **cell("CG", **{"0.1": 1.0, "0.01": 8.0}),
        **cell("CG", 1, **{"0.1": 1.0, "0.01": 8.0}),
    }
    (tmp_path / "one.json").write_text(json.dumps({"system": "china", "cells": cells}))
    return tmp_path


def test_a_profile_is_the_share_of_tasks_within_a_multiple_of_the_best_time(results):
    of = medians(tabulate(results))
    curves = profile(of, "seconds")
    # auto is best on three of four tasks and takes four times as long on one; of two seeds the slower counts
    np.testing.assert_allclose(curves["auto"], ([1.0, 4.0], [0.75, 1.0]))
    np.testing.assert_allclose(curves["CG"], ([1.0, 2.0], [0.25, 0.5]))
    auto, cg = standings(of).to_dict("records")
    assert (auto["entrant"], auto["done"], auto["asked"], auto["won"]) == ("auto", 4, 4, 3)
    assert (cg["done"], cg["asked"], cg["won"], cg["times seconds"]) == (2, 4, 1, 1.5)


def test_losses_of_auto_are_listed_first_and_failures_are_shown_in_words(results):
    (loss,) = losses(medians(tabulate(results))).to_dict("records")
    assert (loss["system"], loss["tol"], loss["entrant of best"], loss["regret"]) == ("china", 0.1, "CG", 4.0)
    assert loss["reason"] == "auto took a way of its own, 40, where CG needs 10"
    text = make(results).read_text()
    assert text.index("Where auto is not the best") < text.index("Profiles") < text.index("Every system")
    assert '<td class="text bad">limit</td>' in text and "one core of 2 of a test, 8 GiB" in text
    assert "2 to 4 s · 20 to 40" in text and "Medians over 2 seeds" in text and "Cost against n" not in text
    with pytest.raises(ValueError, match="has no results"):
        make(results / "nothing")


def test_the_section_of_the_readme_states_the_results(results):
    said = " ".join(section(results).split())
    assert "1 systems with published hyperparameters and 0 hard systems" in said
    assert "on one core of 2 of a test, 8 GiB" in said and "to 0.1, 0.01, 0.001 and 1e-6" in said
    assert "`auto` solves 4 of 4 tasks of the published family, in 1.00 times the seconds" in said
    assert "on 1 of 4 tasks, at worst 4.0 times (china, to 0.1). It fails no task that another method solves." in said
    assert "| auto | 40 (4 s) | | CG | 80 (8 s) |" in said
    assert "Medians of 2 seeds; the largest work is 1.00 times the least" in said


def test_the_readme_in_the_repository_matches_its_results():
    _, rest = readme.README.read_text("utf-8").split(readme.MARKS[0])
    assert rest.split(readme.MARKS[1])[0].strip() == section(FOLDER)


@pytest.mark.parametrize(
    ("ours", "theirs", "reason"),
    [
        (1.0, 3.8, "A, 4, and B 3.8: not more, but 1,000 ms each, set-up and choosing included, where B takes 263"),
        (9.0, 3.0, "auto took as much work as A, 36, where B needs 3"),
        (1.0, 4.005, "auto took as much work as B, 4: 3,000 ms are choosing, or what seconds scatter"),
    ],
)
def test_the_reason_for_a_loss_follows_from_work_and_seconds(tmp_path, ours, theirs, reason):
    def of(name, seconds, work):
        return cell(name, work=work, **dict.fromkeys(("0.1", "0.01", "0.001", "1e-06"), seconds))

    cells = of("auto", 4.0, ours) | of("A", 5.0, 0.8 * ours) | of("B", 1.0, theirs)  # A is the method that auto chose
    (tmp_path / "one.json").write_text(json.dumps({"system": "china", "cells": cells}))
    found = losses(medians(tabulate(tmp_path)))
    assert len(found) == 4 and all(reason in each for each in found["reason"])


def test_an_exponent_is_fitted_to_a_power_law_from_at_least_three_sizes(tmp_path):
    cells, few = {}, {}
    for n in (4_000, 8_000, 16_000):
        cells |= cell("auto", n=n, work=1e-3, **dict.fromkeys(("0.1", "0.01", "0.001", "1e-06"), 3e-8 * n**2))
        few |= cell("CG", n=n, **({"0.1": 1.0, "0.01": 1.0} if n < 10_000 else {}))
    (tmp_path / "one.json").write_text(json.dumps({"system": "china", "cells": cells | few}))
    auto, cg = growth(medians(tabulate(tmp_path)))
    seconds = auto.laws["seconds"]
    assert seconds.exponent == pytest.approx(2) and seconds.error == pytest.approx(0, abs=1e-7)
    assert seconds.sizes == (4_000, 8_000, 16_000) and seconds.at(40_000) == pytest.approx(48)
    assert auto.cells[8_000]["work"] == pytest.approx(1.92e-3) and math.isnan(cg.laws["seconds"].exponent)
    text = make(tmp_path).read_text()
    assert "over 9 s" in text  # a cell stopped by a limit shows the limit
    assert "2.00 ± 0.00" in text and "1 system of at most 4,000 rows" in text and len(text) < 2_000_000


def test_our_entrants_start_in_float32():
    assert Problem(made(2, "rbf", 1.0, 0.1)(50, 0)).system(torch.float32).dtype is torch.float32


def test_every_system_has_its_own_file_with_a_name_valid_on_any_file_system():
    names = [file_name(system) for system in SYSTEMS]
    assert len({name.lower() for name in names}) == len(SYSTEMS)
    assert all(re.fullmatch(r"[a-zA-Z0-9.-]+\.json", name) for name in names)
