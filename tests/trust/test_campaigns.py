"""A slice of every campaign of `python -m tests.trust`; figures of complete ones are in `results/trust.json`."""

from __future__ import annotations

import importlib
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

import apviz
from apviz.solvers.residuals import ApproximateResidual, ExactResidual
from tests.trust import __main__ as campaigns
from tests.trust import (
    addresses,
    arguments,
    bands,
    certificates,
    install,
    interrupt,
    journey,
    kill,
    long,
    memory,
    posterior,
    strangers,
    tables,
    truth,
    write,
)  # fmt: skip
from tests.trust.__main__ import seconds
from tests.trust.bounds import Endless, TooLarge, bounded, fault_of
from tests.trust.verdicts import Verdict

torch.set_num_threads(1)


def of_which_one_is_quick(firsts):
    """Return slices of a campaign by their first seeds; all but one are slow."""
    return [first if place == 0 else pytest.param(first, marks=pytest.mark.slow) for place, first in enumerate(firsts)]


@pytest.mark.parametrize("first", of_which_one_is_quick(range(0, 200, 50)))
def test_claims_of_convergence_hold_and_no_other_error_is_raised(first):
    wrong = {seed: verdict for seed in range(first, first + 50) if (verdict := truth.judge(seed)).is_wrong}
    assert not wrong


def test_the_campaign_finds_a_false_claim(monkeypatch):
    solve, seed = apviz.solve, next(seed for seed in range(99) if truth.judge(seed).how == "converged")

    def boasting(system, solver):
        solution = solve(system, solver)
        return replace(solution, weights=solution.weights * 1.5 + 1.0)

    monkeypatch.setattr(apviz, "solve", boasting)
    assert truth.judge(seed).how == "false"


def test_the_campaign_finds_an_undocumented_error(monkeypatch):
    def failing(system, solver):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(apviz, "solve", failing)
    assert truth.judge(0).how == "error"


def test_the_cases_have_what_users_have():
    cases = [truth.case(seed) for seed in range(400)]
    words = [case.words for case in cases]
    assert {case.dtype for case in cases} == {torch.float32, torch.float64}
    for name in ("uniform", "clusters", "duplicates", "grid", "one far"):
        assert any(each["points"] == name for each in words)
    assert any(not case.x.is_contiguous() for case in cases) and any("zero column" in each for each in words)
    assert {type(case.solver).__name__ for case in cases} >= {
        "AlternatingProjection", "ConjugateGradient", "Cholesky", "Automatic", "ASkotch", "StochasticDualDescent",
    }  # fmt: skip


@pytest.mark.parametrize("first", of_which_one_is_quick(range(0, 40, 2)))
def test_no_certificate_of_a_fourier_solve_is_false(first):
    wrong = {seed: verdict for seed in range(first, first + 2) if (verdict := certificates.judge(seed)).is_wrong}
    assert not wrong


def test_the_campaign_finds_a_certificate_that_leaves_its_error_out(monkeypatch):
    def careless(self, b, w, tol):
        found = ExactResidual.residual(self, b, w, tol)
        return found._replace(squared=found.squared * 0.9)

    monkeypatch.setattr(ApproximateResidual, "residual", careless)
    assert {certificates.judge(seed).how for seed in range(2)} & {"false"}


@pytest.mark.parametrize("first", of_which_one_is_quick(range(0, 100, 10)))
def test_bands_contain_the_truth_and_recorded_numbers_match_the_weights(first):
    wrong = {seed: verdict for seed in range(first, first + 10) if (verdict := bands.judge(seed)).is_wrong}
    assert not wrong


@pytest.mark.parametrize("what", ["band", "bound", "weights", "eigenvalues", "test error"])
def test_the_campaign_finds_wrong_bands_and_numbers(monkeypatch, what):
    band, eigenvalues, weights = bands.k_norm_error, apviz.tracing.recorder.spectrum, apviz.solvers.run.Run.weights

    def lied(trace):
        found = band(trace)
        change = {"upper": found["lower"] * 0.99} if what == "band" else {"bound": 0 * found["bound"]}
        return found.assign(change)

    def too_small(*args, **settings):
        found = eigenvalues(*args, **settings)
        return replace(found, lambda_max=replace(found.lambda_max, bound=0.9 * found.lambda_max.value))

    seed = next(
        seed
        for seed in range(99)
        if (made := bands.solve_of(seed)).case.dtype == torch.float64
        and getattr(made.case.solver, "rule", "") == "gauss-southwell"
        # there is no bound for steps along past updates
        and (
            what != "bound"
            or (not made.case.solver.method.history and bands.judge(seed).how == "band after every epoch")
        )
    )
    assert not bands.judge(seed).is_wrong
    if what in ("band", "bound"):
        monkeypatch.setattr(bands, "k_norm_error", lied)
    elif what == "weights":
        monkeypatch.setattr(apviz.solvers.run.Run, "weights", property(lambda run: weights.fget(run) * (1 + 1e-6)))
    elif what == "eigenvalues":
        monkeypatch.setattr(apviz.tracing.recorder, "spectrum", too_small)
    else:
        monkeypatch.setattr(apviz.PredictionHook, "measure", lambda hook, run: {"test_rmse": 0.123})
    assert bands.judge(seed).how == "false"


@pytest.mark.parametrize("first", of_which_one_is_quick([0, 4]))
def test_a_changed_trace_is_rejected_or_escaped_and_never_hides_the_good_one(first):
    wrong = {seed: verdict for seed in range(first, first + 4) if (verdict := strangers.judge(seed)).is_wrong}
    assert not wrong


def test_the_campaign_finds_a_report_without_escaping(monkeypatch):
    def unescaped(traces, path):
        path.write_text(f"<td>CG</td>{strangers.MARK}")
        return path

    monkeypatch.setattr(strangers, "write_report", unescaped)
    assert strangers.judge(0).how == "false"


@pytest.mark.slow
def test_changes_of_every_kind_are_tried(tmp_path):
    import shutil

    kinds = set()
    for seed in range(60):
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        shutil.copytree(strangers.good() / "ap.zarr", tmp_path / "t")
        kinds.add(strangers.mutate(tmp_path / "t", np.random.default_rng(seed)).split()[0])
    assert kinds >= {"flip", "cut", "lose", "lie", "rename", "link", "strange"}


def first_of(campaign, kind, found=lambda case: case.kind, seeds=range(200)):
    """Return the first seed of a kind of case."""
    return next(seed for seed in seeds if found(campaign.case(seed)) == kind)


@pytest.mark.parametrize("kind", [pytest.param("training", marks=pytest.mark.slow), "solve", "two solves"])
def test_a_killed_run_keeps_flushed_rows_and_resumes_and_one_of_two_raises(kind):
    verdict = kill.judge(first_of(kill, kind))
    assert not verdict.is_wrong, verdict.said


def test_the_campaign_finds_resources_left_by_visitors_and_growing_memory():
    gone = long.Left(threads=9, files=12, sockets=0, children=0, folders=1, mb=900.0)
    assert not long.Course([gone] * 12).fault()
    assert (
        long.Course([gone] * 4 + [replace(gone, sockets=2)]).fault() == "2 sockets, 0 at most after the first 4 rounds"
    )
    growing = [replace(gone, mb=900.0 + 15 * k) for k in range(12)]
    assert (
        long.Course(growing).growth == pytest.approx(105) and long.Course(growing).fault() == "105 MB more in 8 rounds"
    )
    # a single peak is not growth
    assert not long.Course([*[gone] * 9, replace(gone, mb=2000.0), gone, gone]).fault()


def test_a_few_rounds_include_every_kind_of_visitor_and_of_leaving():
    visits = [visit for seed in range(3) for visit in long.case(seed)]
    assert {each.does for each in visits} == set(long.DOES) and {each.leaves for each in visits} == set(long.LEAVES)
    assert len(visits) == 3 * long.VISITORS


@pytest.mark.slow
def test_a_few_visitors_leave_no_resources_behind(monkeypatch):
    monkeypatch.setattr(long, "VISITORS", 4)
    verdict = long.judge(1)
    left = long.dashboard().course.rounds[-1]
    assert not verdict.is_wrong and (left.sockets, left.children) == (0, 0) and left.folders <= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["experiment", "comparison", "two trainings"])
def test_killed_experiments_and_jobs_keep_flushed_rows_too(kind):
    verdict = kill.judge(first_of(kill, kind))
    assert not verdict.is_wrong, verdict.said


def test_the_campaign_finds_flushed_rows_that_were_lost(monkeypatch, tmp_path):
    monkeypatch.setattr(kill, "_whole", lambda kind, solver: kill.tempfile.TemporaryDirectory(dir=tmp_path))
    recorder = apviz.Recorder(tmp_path / "a.zarr")
    system, solver = kill._system(), kill.SOLVERS[0](tol=kill.NEVER, max_epochs=5)
    apviz.solve(system, solver, [recorder])
    assert kill.check_beginning(tmp_path / "a.zarr", tmp_path / "a.zarr", 6, "epoch") == 6
    with pytest.raises(AssertionError, match="6 epochs on disk, 7 were flushed"):
        kill.check_beginning(tmp_path / "a.zarr", tmp_path / "a.zarr", 7, "epoch")


QUICK = ("solve", "training resumes", "note", "save a model")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in write.SCENARIOS]
)
def test_whatever_write_fails_a_solve_continues_and_no_partial_file_looks_complete(name):
    seeds = [seed for seed in range(300) if seed % len(write.SCENARIOS) == list(write.SCENARIOS).index(name)]
    for seed in seeds[1:3]:
        verdict = write.judge(seed)
        assert not verdict.is_wrong, f"{seed}: {verdict.said}"


def test_the_campaign_finds_disk_failures_without_a_warning(monkeypatch):
    monkeypatch.setattr(apviz.Recorder, "flush", lambda self: None)
    assert write.judge(0).how == "false"


@pytest.mark.parametrize("name", ["solve by overlapping", "training", "predict", "a system"])
def test_too_little_memory_gives_a_message_and_objects_stay_usable(name):
    of_it = [seed for seed in range(600) if memory.case(seed) == (name, 0)]
    for seed in of_it[:12:4]:
        verdict = memory.judge(seed)
        assert not verdict.is_wrong, f"{seed}: {verdict.said}"


def test_a_solve_under_a_limit_of_address_space_ends_with_a_message_or_continues():
    verdict = memory.judge(next(seed for seed in range(600) if 0 < memory.case(seed)[1] < 10))
    assert not verdict.is_wrong, verdict.said


def test_the_campaign_finds_raw_errors_of_an_allocator(monkeypatch):
    for name in ("solve", "interface"):  # the package has a function `solve`
        module = importlib.import_module(f"apviz.solvers.{name}")
        monkeypatch.setattr(module, "explained", lambda what, instead: nullcontext())
    seed = next(seed for seed in range(600) if memory.case(seed) == ("solve by gauss-southwell", 0) and seed > 200)
    assert memory.judge(seed).how == "false"


@pytest.mark.parametrize("what", ["line", "timer", "raising hook", "writing hook", "threads"])
def test_whatever_disturbs_a_solve_the_next_equals_that_of_a_fresh_process(what):
    of_it = [seed for seed in range(200) if interrupt.case(seed).what == what and not interrupt.case(seed).trains]
    for seed in of_it[:2]:
        verdict = interrupt.judge(seed)
        assert not verdict.is_wrong, f"{seed}: {verdict.said}"


def test_the_campaign_finds_a_setting_that_a_solve_leaves_changed(monkeypatch):
    solved = interrupt.solved

    def leaving_a_trace(*arguments):
        torch.rand(1)
        return solved(*arguments)

    monkeypatch.setattr(interrupt, "solved", leaving_a_trace)
    assert "torch's generator" in interrupt.judge(first_of(interrupt, "writing hook", lambda case: case.what)).said


# --- where it is installed --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", [each for each in install.PLACES if "Python" not in each])
def test_apviz_works_in_other_environments(name):
    verdict = install.judge(list(install.PLACES).index(name))
    if verdict.how == "not here":
        pytest.skip(verdict.said)
    assert not verdict.is_wrong, verdict.said


@pytest.mark.slow
def test_the_campaign_finds_a_module_that_cannot_be_imported_and_missing_places(monkeypatch, tmp_path):
    def broken(at):
        (at / "sitecustomize.py").write_text("import sys; sys.modules['apviz.spectrum'] = None")
        return install.Place(at / "work", env={"PYTHONPATH": str(at)})

    monkeypatch.setitem(install.PLACES, "no compiler", broken)
    verdict = install.judge(0)
    assert verdict.how == "error" and "apviz.spectrum" in verdict.said
    assert install.measured()["places"]["no compiler"].startswith("error: ")
    monkeypatch.setattr(install.shutil, "which", lambda name: None)
    name = "Python 3.12, the newest versions"
    assert install.judge(list(install.PLACES).index(name)).said == "there is no python3.12 on this machine"
    monkeypatch.setattr(install, "_went", {})


@pytest.mark.parametrize("names", [["a:b"], ["aux.txt"], ["ends."], ["A.zarr", "a.zarr"], ["x" * 130]])
def test_the_campaign_finds_file_names_invalid_on_other_systems(monkeypatch, tmp_path, names):
    monkeypatch.chdir(tmp_path)
    journey.every_name_is_one_on_windows_and_macos()
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(AssertionError):
        journey.every_name_is_one_on_windows_and_macos()


def test_a_budget_is_seconds_minutes_or_hours():
    assert [seconds(text) for text in ("90s", "10m", "1.5h", "7")] == [90, 600, 5400, 7]


# --- processes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", of_which_one_is_quick([0, 12]))
def test_numbers_of_small_processes_are_within_their_stated_errors(first):
    wrong = {seed: verdict for seed in range(first, first + 12) if (verdict := posterior.judge(seed)).is_wrong}
    assert not wrong


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("mean", lambda found: found + 0.01),
        ("variance", lambda found: found * 0.9),
        ("covariance", lambda found: found * 0.9),
    ],
)
def test_the_campaign_finds_wrong_predictions(monkeypatch, method, change):
    seeds = [seed for seed in range(40) if posterior.case(seed).face == "posterior"][:6]
    predict = getattr(apviz.Posterior, method)
    monkeypatch.setattr(apviz.Posterior, method, lambda self, *args, **given: change(predict(self, *args, **given)))
    assert any(posterior.judge(seed).how == "false" for seed in seeds)


def test_the_campaign_finds_wrong_likelihoods_and_gradients(monkeypatch):
    seeds = [seed for seed in range(60) if posterior.case(seed).face.startswith("estimator")][:6]
    likelihood = apviz.GaussianProcess.log_marginal_likelihood

    def off(by):
        def found(self, *args, **given):
            value, gradient = likelihood(self, *args, **given)
            return value * (1 + by[0]), gradient * (1 + by[1])

        return found

    for by in ((1e-6, 0.0), (0.0, 1e-4)):
        monkeypatch.setattr(apviz.GaussianProcess, "log_marginal_likelihood", off(by))
        assert any(posterior.judge(seed).how == "false" for seed in seeds)


def test_a_process_in_sixty_digits_agrees_with_an_accurate_one_in_float64():
    from tests.trust import exact

    for seed in range(12):
        made = posterior.case(seed)
        n = min(len(made.x), 8)
        given = (made.expression, list(made.kernel.numbers.values()), 0.5, made.mu, made.x[:n], made.y[:n], made.z)
        in_float64 = exact.exact(*given)
        with exact.mpmath.workdps(exact.DIGITS):
            in_mpmath = exact._in_mpmath(*given)
        for name in ("mean", "covariance", "log_determinant", "log_likelihood", "gradient"):
            np.testing.assert_allclose(getattr(in_float64, name), getattr(in_mpmath, name), rtol=1e-8, atol=1e-10)


# --- input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", of_which_one_is_quick([0, 40]))
def test_tables_are_read_as_written_or_rejected_in_one_sentence(first):
    wrong = {seed: verdict for seed in range(first, first + 40) if (verdict := tables.judge(seed)).is_wrong}
    assert not wrong


def test_tables_of_every_kind_are_tried():
    cases = [tables.case(seed) for seed in range(150)]
    whole = [each for each in cases if each.truth is not None]
    assert 30 < len(whole) < 120
    written = " ".join(each.words["written"] for each in whole)
    for word in (".csv", ".tsv", ".gz", "Parquet", "utf-16", "cp1252", "decimal ,", "zstd"):
        assert word in written
    then = {each.words.get("then", "").split()[0] for each in cases if each.words.get("then")}
    assert then >= {"cut", "flip", "insert", "called", "a", "zip"}


def test_the_campaign_finds_a_table_read_as_other_numbers(monkeypatch):
    from apviz.datasets import reading

    seed = next(
        seed for seed in range(99) if tables.case(seed).truth is not None and tables.judge(seed).how.startswith("read")
    )
    read = reading.pd.read_csv
    parquet = reading.read_parquet
    monkeypatch.setattr(
        reading.pd, "read_csv", lambda *args, **given: read(*args, **given).iloc[::-1].reset_index(drop=True)
    )
    monkeypatch.setattr(reading, "read_parquet", lambda *given: parquet(*given).iloc[::-1].reset_index(drop=True))
    assert tables.judge(seed).how == "false"


@pytest.mark.parametrize("first", of_which_one_is_quick(range(0, 300, 100)))
def test_odd_arguments_are_used_or_rejected_by_name(first):
    wrong = {seed: verdict for seed in range(first, first + 100) if (verdict := arguments.judge(seed)).is_wrong}
    assert not wrong


def test_every_public_class_and_function_that_takes_settings_is_called():
    called = {recipe.name.split(".")[0] for recipe in arguments.recipes()}
    # made by apviz and not by users, or without a setting
    without = {
        "Advice", "Hook", "Kernel", "NotConverged", "Prepared", "Solution", "Stationary", "StopReason", "Trace",
        "TrainingError", "TrainingHook", "TrainingProgress", "TrainingSettings",
    }  # fmt: skip
    public = {name for name in apviz.__all__ if callable(getattr(apviz, name))}
    assert public - without - called == set()


def test_the_campaign_finds_undocumented_errors_and_errors_without_a_name(monkeypatch):
    seed = next(seed for seed in range(999) if arguments.case(seed).recipe.name == "open_trace")
    for error in (ValueError("no"), KeyError("path"), ValueError("path\npath")):

        def failing(path, error=error):
            raise error

        made = arguments.case(seed)
        monkeypatch.setattr(
            arguments, "case", lambda seed, made=made, use=failing: replace(made, recipe=replace(made.recipe, use=use))
        )
        assert arguments.judge(seed).how == "error"


@pytest.mark.parametrize("first", of_which_one_is_quick([0, 40]))
def test_addresses_and_fields_are_accepted_or_omitted_with_a_message(first):
    wrong = {seed: verdict for seed in range(first, first + 40) if (verdict := addresses.judge(seed)).is_wrong}
    assert not wrong


def test_the_campaign_finds_a_setting_that_is_omitted_silently(monkeypatch):
    apply = addresses.address.apply
    monkeypatch.setattr(addresses.address, "apply", lambda query, models: apply(query, models)[:0])
    assert any(addresses.judge(seed).how == "false" for seed in range(20))


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_endless_cases_and_those_of_too_much_memory_are_stopped():
    with pytest.raises(Endless), bounded(seconds=0.1):
        while True:
            sum(range(1000))
    with pytest.raises(TooLarge), bounded(gigabytes=0.05):
        np.ones(10**7).sum()
    with bounded():
        sum(range(1000))


def test_a_rejection_is_one_sentence_of_a_documented_kind_that_names_something():
    assert fault_of(ValueError("tol must be positive"), (ValueError,), ["tol"]) == ""
    for error in (KeyError("tol"), ValueError(""), ValueError("tol\ntol"), ValueError("no"), MemoryError("tol")):
        assert fault_of(error, (ValueError,), ["tol"])


# --- the page ---------------------------------------------------------------------------------------------------------


def test_failed_cases_are_tried_again(monkeypatch, tmp_path):
    from types import SimpleNamespace

    is_mended = False
    judge = lambda seed: Verdict("false" if seed == 3 and not is_mended else "ended")  # noqa: E731
    monkeypatch.setattr(campaigns, "FIGURES", tmp_path / "trust.json")
    monkeypatch.setitem(campaigns.CAMPAIGNS, "made", SimpleNamespace(judge=judge, described=lambda seed: {}))
    found = campaigns.work_on("made", 0.05)
    assert found["how"]["false"] == 1 and list(found["wrong"]) == ["3"] and found["fixed"] == 0
    is_mended = True
    again = campaigns.work_on("made", 0.0)
    assert again["wrong"] == {} and again["fixed"] == 1 and again["how"] == {"ended": again["cases"]}


def test_the_page_has_a_row_for_every_campaign_with_its_figures():
    import json
    import re
    import sys
    import tomllib

    sys.path.insert(0, str(campaigns.FIGURES.parents[2] / "docs"))
    from building import trust as page

    figures = json.loads(campaigns.FIGURES.read_text())
    of_mutants = figures.pop("mutants", {})
    known = tomllib.loads(page.CAMPAIGNS.read_text("utf-8"))
    assert set(figures) <= set(campaigns.CAMPAIGNS) == set(known)
    header, _, *rows = page.table().splitlines()
    assert [each.strip() for each in header.strip("|").split("|")] == list(page.COLUMNS)
    assert len(rows) == len(figures)
    for row, (name, found) in zip(rows, figures.items(), strict=True):
        cells = [each.strip() for each in row.strip("|").split("|")]
        assert len(cells) == len(page.COLUMNS)
        assert cells[:2] == [known[name]["title"], known[name]["tried"]]
        assert int(cells[2].replace(",", "")) == found["cases"] == sum(found["how"].values())
        assert float(cells[3]) == round(found["hours"], 2) and int(cells[4]) == len(found["wrong"])
        paths = [path for each in known[name].get("found", []) for path in each["tests"]]
        assert re.findall(r"\]\(\.\./\.\./([^)]*)\)", cells[5]) == paths
        assert all((campaigns.FIGURES.parents[2] / path).is_file() for path in paths)
    rows = page.mutants_table().splitlines()[2:]
    assert len(rows) == len(of_mutants)
    for row, (name, found) in zip(rows, of_mutants.items(), strict=True):
        cells = [each.strip() for each in row.strip("|").split("|")]
        survived = sum(number for how, number in found["how"].items() if how != "killed")
        numbers = [int(each.replace(",", "")) for each in cells[2:5]]
        assert name in cells[0] and numbers == [found["mutants"] - survived, found["mutants"], found["made"]]
        assert cells[1] == f"{1 - survived / found['mutants']:.0%}"
    text = (page.ROOT / f"docs/{page.PAGE}.md").read_text("utf-8")
    assert all(mark in text for mark in (page.MARK, page.MUTANTS_MARK, page.PLACES_MARK, page.VISITORS_MARK))
    long = figures["long"]
    for row, when in zip(
        page.visitors_table().splitlines()[-2:], ("after the first rounds", "at the end"), strict=True
    ):
        numbers = [int(each.strip().replace(",", "")) for each in row.strip("|").split("|")[1:]]
        left = [long[when][each] for each in ("threads", "files", "sockets", "children", "folders", "mb")]
        assert numbers == [round(each) for each in left]


def test_mutants_are_counted_by_file():
    from tests.trust.mutants import counted, made

    said = """
    apviz.rules.x_rule_named__mutmut_1: killed
    apviz.rules.xǁCyclicǁbegin__mutmut_2: survived
    apviz.gp.gradient.x_step_system__mutmut_3: not checked
    apviz.gp.gradient.x_step_system__mutmut_4: timeout
    """
    found = {file: counted(names) for file, names in made(said).items()}
    assert found == {
        "apviz/rules.py": {"made": 2, "mutants": 2, "how": {"killed": 1, "survived": 1}},
        "apviz/gp/gradient.py": {"made": 2, "mutants": 0, "how": {}},
    }
