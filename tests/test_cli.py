"""The command line, as a user runs it."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner, Result

import apviz
from apviz import cli


@pytest.fixture
def apviz_here(tmp_path, monkeypatch) -> Callable[..., Result]:
    """Return a function that runs a command in this process, in `tmp_path` unless another folder is given."""

    def run(*words: str, folder: Path = tmp_path) -> Result:
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            # the width of a terminal; Rich reads COLUMNS only when a console is created
            patch.setattr(cli.console, "width", 150)
            patch.setattr(cli.errors, "width", 150)
            return CliRunner().invoke(cli.app, list(words))

    level = logging.getLogger("apviz").level
    yield run
    logging.captureWarnings(False)
    logging.getLogger("apviz").setLevel(level)


def apviz_command(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "apviz", *words],
        cwd=folder, env={**os.environ, "COLUMNS": "150"}, capture_output=True, text=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("cli")
    done = apviz_command(
        "compare", "--dataset", "diabetes", "--block-sizes", "30,100", "--rhs", "3", "--max-epochs", "4",
        "--methods", "ap,cg,pcg,cholesky", "--rank", "20", folder=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, folder


def test_compare_prints_one_row_per_run_and_writes_their_traces_and_a_report(compared):
    printed, folder = compared
    assert len(list((folder / "runs").glob("*.zarr"))) == 3 * 2 + 3
    assert (folder / "runs/report.html").exists()
    for heading in ("method", "epochs", "work", "residual", "how it", "ended", "RMSE"):
        assert heading in printed


def test_a_run_that_hits_its_cap_is_shown_as_not_converged(compared):
    printed, folder = compared
    traces = [apviz.open_trace(path) for path in (folder / "runs").glob("*.zarr")]
    capped = sum(trace.outcome == "max_epochs" for trace in traces)
    assert capped > 0
    assert printed.count("Not converged") == capped


def test_the_text_below_the_table_names_the_best_method_and_compares_another(compared):
    printed, folder = compared
    traces = [apviz.open_trace(path) for path in (folder / "runs").glob("*.zarr")]
    headline = apviz.analysis.judge(traces).headline
    assert headline in " ".join(printed.split())


def test_a_comparison_is_forecast_on_request(apviz_here):
    words = ("--methods", "cg,sdd,auto", "--tol", "0.001", "--max-epochs", "3")
    told, untold = (
        " ".join(apviz_here("compare", "--dataset", "diabetes", *words, *more).output.split())
        for more in (["--forecast"], [])
    )
    assert "An estimate, made in" in told and "of the rows." in told
    assert "An estimate" not in untold
    nothing = apviz_here("compare", "--dataset", "diabetes", "--methods", "sdd", "--max-epochs", "3", "--forecast")
    assert "no forecast: apviz cannot forecast any of these methods" in nothing.output


def test_report_and_table_are_rebuilt_from_traces_alone(compared, apviz_here):
    _, folder = compared
    (folder / "runs/report.html").unlink()
    done = apviz_here("report", "runs", folder=folder)
    assert done.exit_code == 0 and (folder / "runs/report.html").exists()
    assert "Cholesky" in done.stdout


def test_show_prints_settings_spectrum_and_last_epochs(compared, apviz_here):
    _, folder = compared
    done = apviz_here("show", "runs/diabetes-n353-alternating-projection-cyclic-b-30.zarr", folder=folder)
    assert done.exit_code == 0, done.stderr
    for word in (
        "Alternating projection (cyclic, b = 30)",
        "kappa_prime",
        "≈",
        "Not converged: epoch limit",
        "last epochs",
        "'partition': 'sequential'",
    ):
        assert word in done.stdout


def test_your_own_csv_needs_a_target(compared, apviz_here):
    _, folder = compared
    (folder / "own.csv").write_text("a,b\n" + "\n".join(f"{i},{i % 7}" for i in range(50)))
    done = apviz_here("compare", "--dataset", "own.csv", folder=folder)
    assert done.exit_code == 2 and "--target" in done.stderr
    options = ("--block-sizes", "20", "--rules", "cyclic", "--methods", "ap", "--out", "own")
    done = apviz_here("compare", "--dataset", "own.csv", "--target", "b", *options, folder=folder)
    assert done.exit_code == 0 and "fitted here: 40 steps on 40 of 40 rows" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dataset", "chinna"), "Did you mean china"),
        (("--dataset", "diabetes", "--rules", "greedy"), "rule must be one of gauss-southwell"),
        (("--dataset", "diabetes", "--block-sizes", "ten"), "--block-sizes takes whole numbers"),
        (("--dataset", "diabetes", "--methods", "sor"), "methods must be among"),
        (("--dataset", "diabetes", "--noise", "0"), "noise is the variance"),
        (("--dataset", "diabetes", "--lengthscale", "a"), "--lengthscale takes numbers"),
        (("--dataset", "diabetes", "--lengthscale", "1,2,3"), "3 lengthscales were given"),
        (("--dataset", "diabetes", "--kernel", "cosine"), "kernel must be one of"),
        (("--dataset", "diabetes", "--n", "100000"), "353"),
        (("--dataset", "diabetes", "--dtype", "float16"), "--dtype must be float32 or float64"),
    ],
)
def test_bad_input_is_named_before_any_work(tmp_path, options, message, apviz_here):
    done = apviz_here("compare", *options)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
    assert not (tmp_path / "runs").exists()


OWN = ("own.csv", "--target", "price", "--lengthscale", "0.5", "--outputscale", "1", "--noise", "0.1")


def write_own_table(folder):
    rows = (f"{i % 50},{(i * 7) % 61},{(i % 50) * 0.1 + (i * 13 % 17) * 0.01}" for i in range(3_200))
    (folder / "own.csv").write_text("a,b,price\n" + "\n".join(rows))


def test_advice_on_your_own_csv_names_a_method_and_the_cost_of_each(tmp_path, apviz_here):
    write_own_table(tmp_path)
    done = apviz_here("advise", *OWN)
    assert done.exit_code == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "2,458 rows (merged from 2,560), 2 inputs, 1 right-hand side, Matérn-5/2, float32, σ² = 0.1, to 0.01" in said
    assert "2,560 training rows at 2,458 distinct inputs: merged, solved as 2,458 rows" in said
    assert "Use " in said and "Cholesky" in said and "Overlapping" in said
    assert "All forecasts are estimates from short tests on this machine, made in" in said
    assert not (tmp_path / "runs").exists()


def test_advice_can_be_followed_at_once_and_its_solve_is_recorded(tmp_path, apviz_here):
    write_own_table(tmp_path)
    done = apviz_here("advise", *OWN, "--solve")
    assert done.exit_code == 0, done.stderr
    (path,) = (tmp_path / "runs").glob("*.zarr")
    trace = apviz.open_trace(path)
    assert trace.converged and (trace.attrs["n"], trace.attrs["merged_rows"]) == (2_458, 2_560)
    assert (tmp_path / "runs" / "report.html").exists()
    shown = apviz_here("show", str(path))
    assert "n = 2,458 (merged from 2,560)" in " ".join(shown.output.split())


@pytest.mark.parametrize(
    ("how", "n", "said"),
    [
        ("keep", 2_560, "2,560 training rows at 2,458 distinct inputs: kept; 2,458 merged rows predict the same"),
        ("merge", 2_458, "2,560 training rows at 2,458 distinct inputs: merged, solved as 2,458 rows"),
        (None, 2_560, "2,560 training rows at 2,458 distinct inputs: kept; 2,458 merged rows predict the same"),
    ],
)
def test_a_comparison_keeps_duplicate_rows_unless_told_to_merge_them(tmp_path, apviz_here, how, n, said):
    write_own_table(tmp_path)
    options = [] if how is None else ["--duplicates", how]
    done = apviz_here("compare", "--dataset", *OWN, "--methods", "cholesky", "--rhs", "2", *options)
    assert done.exit_code == 0, done.stderr
    assert said in " ".join(done.stdout.split())
    (path,) = (tmp_path / "runs").glob("*.zarr")
    assert apviz.open_trace(path).attrs["n"] == n


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dataset", "diabetes", "--duplicates", "drop"), "--duplicates drop is for your own tables"),
        (
            ("--dataset", "diabetes", "--duplicates", "mean"),
            "must be one of keep, merge, drop, got 'mean'",
        ),
    ],
)
def test_what_cannot_be_done_with_duplicate_rows_is_rejected(options, message, apviz_here):
    done = apviz_here("compare", *options)
    assert done.exit_code == 2 and message in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("chinna",), "Did you mean china"),
        (("diabetes", "--tol", "0"), "tol must be"),
        (("diabetes", "--rhs", "0"), "rhs must be at least 1"),
    ],
)
def test_invalid_options_of_advise_are_rejected_with_a_reason(options, message, apviz_here):
    done = apviz_here("advise", *options)
    assert done.exit_code == 2 and message in " ".join(done.stderr.split())


def test_a_report_on_a_folder_without_traces_says_which_command_writes_them(tmp_path, apviz_here):
    done = apviz_here("report", ".")
    assert done.exit_code == 2 and "apviz compare --out" in " ".join(done.stderr.split())


def test_show_of_a_folder_that_is_not_a_trace_says_so(tmp_path, apviz_here):
    (tmp_path / "x.zarr").mkdir()
    done = apviz_here("show", "x.zarr")
    assert done.exit_code == 2 and "does not open as a Zarr trace" in " ".join(done.stderr.split())


def test_show_rejects_a_training_and_a_trace_with_odd_attributes(tmp_path, apviz_here):
    x, y = torch.rand(20, 1), torch.rand(20)
    apviz.Training(x, y, apviz.TrainingSettings(steps=1, solver=apviz.Cholesky()), path=tmp_path / "t.zarr").run()
    done = apviz_here("show", "t.zarr")
    assert done.exit_code == 2 and "t.zarr is the trace of a training, not of one solve" in " ".join(
        done.stderr.split()
    )
    apviz.solve(
        apviz.KernelSystem(x, y, apviz.RBF(lengthscale=0.5), noise=0.1),
        apviz.Cholesky(),
        [apviz.Recorder(tmp_path / "a.zarr")],
    )
    root = json.loads((tmp_path / "a.zarr" / "zarr.json").read_text())
    root["attributes"]["noise"] = [None]
    (tmp_path / "a.zarr" / "zarr.json").write_text(json.dumps(root))
    done = apviz_here("show", "a.zarr")
    assert done.exit_code == 2 and "its noise must be int or float, got '[None]'" in " ".join(done.stderr.split())


def test_datasets_lists_every_card_with_its_licence_and_whether_it_is_downloaded(tmp_path, apviz_here, monkeypatch):
    for place in ("APVIZ_DATA", "APVIZ_CACHE"):
        monkeypatch.setenv(place, str(tmp_path))
    done = apviz_here("datasets")
    assert done.exit_code == 0
    for card in apviz.datasets.cards().values():
        line = next(line for line in done.stdout.splitlines() if line.strip().startswith(card.name))
        assert f"{card.n:,}" in line
        assert ("yes" if card.name in ("china", "china-profile", "diabetes") else "no") in line


@pytest.mark.slow
def test_ctrl_c_ends_with_the_table_so_far_and_keeps_the_trace(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "apviz", "compare", "--dataset", "china", "--n", "8000", "--rules", "cyclic",
         "--block-sizes", "100", "--methods", "ap", "--max-epochs", "100000", "--tol", "1e-12"],
        cwd=tmp_path, env={**os.environ, "COLUMNS": "150"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    trace = tmp_path / "runs/china-n8000-alternating-projection-cyclic-b-100.zarr"
    deadline = time.monotonic() + 120
    while not trace.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Unfinished:" in printed
    opened = apviz.open_trace(trace)
    assert opened.outcome == "interrupted" and "KeyboardInterrupt" in opened.attrs["stop_message"]
    assert (tmp_path / "runs/report.html").exists()


def test_the_choice_of_auto_is_printed_with_its_reason(tmp_path, apviz_here):
    done = apviz_here("compare", "--dataset", "diabetes", "--methods", "overlap,schwarz,auto", "--rhs", "2")
    assert done.exit_code == 0, done.stderr
    for words in (
        "Chosen for Overlapping projections:",
        "block size: ",
        "past directions: ",
        "coarse space, rank: ",
        "σ²",
    ):
        assert words in done.stdout
    assert "Chosen for Overlapping projections" in (tmp_path / "runs/report.html").read_text("utf-8")


def test_pictures_of_a_system_without_two_inputs_are_rejected(tmp_path, apviz_here):
    done = apviz_here("compare", "--dataset", "diabetes", "--pictures", "3")
    assert done.exit_code == 2 and "--pictures draws inputs with d = 2 columns" in done.stderr
    assert not (tmp_path / "runs").exists()


COMMANDS = typer.main.get_command(cli.app)
NAMES = [name for name in COMMANDS.list_commands(None) if name != "datasets"]


@pytest.mark.parametrize("words", [(), ("datasets",), ("datasets", "inspect"), *((name,) for name in NAMES)])
def test_help_fits_80_columns_and_ends_with_two_examples(words):
    printed = CliRunner().invoke(cli.app, [*words, "--help"], env={"COLUMNS": "80"}).output
    assert max(map(len, printed.splitlines())) <= 80
    examples = [line.strip() for line in printed.partition("Examples:")[2].splitlines() if line.strip()]
    assert len(examples) == 2 and all(each.startswith(" ".join(["apviz", *words])) for each in examples)


@pytest.mark.parametrize(("name", "word"), [("compare", "scaled"), ("advise", "scaled"), ("fit", "units")])
def test_each_command_says_in_which_units_it_takes_hyperparameters(name, word):
    helps = {each.name: each.help for each in COMMANDS.get_command(None, name).params}
    assert all(word in helps[each] for each in ("lengthscale", "outputscale", "noise"))


def test_the_version_is_printed():
    done = CliRunner().invoke(cli.app, ["--version"])
    assert done.exit_code == 0 and done.stdout == f"apviz {apviz.__version__}\n"


@pytest.mark.parametrize("name", NAMES)
def test_examples_in_the_help_use_existing_options(name):
    command = COMMANDS.get_command(None, name)
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert set(re.findall(r"--[a-z-]+", command.epilog)) <= known


@pytest.mark.parametrize("name", ["compare", "advise", "fit", "predict", "experiment", "dashboard"])
def test_every_option_is_in_a_group(name):
    options = [each for each in COMMANDS.get_command(None, name).params if each.param_type_name == "option"]
    groups = {each.rich_help_panel for each in options if each.name != "help"}
    assert {"Data", "Run", "Output"} <= groups <= {
        "Data", "Model", "Model by its variogram", "Methods", "Run", "Output", "Access", "Limits for visitors",
    }  # fmt: skip


def test_the_list_of_data_sets_fits_80_columns(apviz_here, monkeypatch):
    monkeypatch.setattr(cli.console, "width", 80)
    printed = CliRunner().invoke(cli.app, ["datasets"]).output
    assert max(map(len, printed.splitlines())) <= 80 and "keggundirected" in printed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_output_to_a_full_disk_ends_a_command_with_one_sentence():
    with open("/dev/full", "w") as full:  # in its own process, for the console keeps what could not be written
        done = subprocess.run(
            [sys.executable, "-m", "apviz", "datasets"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "the output of the command cannot be written: No space left on device" in done.stderr


@pytest.mark.slow
def test_python_that_makes_warnings_errors_ends_without_a_traceback(tmp_path):
    done = subprocess.run(
        [sys.executable, "-O", "-W", "error", "-m", "apviz", "compare", "--dataset", "diabetes", "--methods", "cg",
         "--max-epochs", "3"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert "Traceback" not in done.stderr and (done.returncode == 0 or "which -W error makes an error" in done.stderr)
