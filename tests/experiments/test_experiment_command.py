"""`apviz experiment`, as a user runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import apviz
from apviz.cli import app
from apviz.experiments import EXPERIMENTS
from apviz.solvers import ConjugateGradient

OPTIONS = ("--n", "200", "--dataset", "china", "--device", "cpu")


def invoke(*words: str, folder: Path):
    return CliRunner().invoke(app, ["experiment", *words, "--out", str(folder / "out")])


def joined(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("convergance", *OPTIONS), f"the experiment must be one of {', '.join(EXPERIMENTS)}, got 'convergance'"),
        (("rules", "--n", "100", "--dataset", "china"), "n must be a whole number, at least 200, got 100"),
        (("rules", "--n", "300", "--dataset", "chinna"), "No data set is called 'chinna'. Did you mean china"),
        (("rules", *OPTIONS, "--seeds", "0"), "seeds must be a whole number, at least 1, got 0"),
        (("rules", "--n", "300", "--device", "gpu"), "device must be auto, cpu or cuda, got 'gpu'"),
    ],
)
def test_bad_input_is_named_before_any_work(words, message, tmp_path):
    done = invoke(*words, folder=tmp_path)
    assert done.exit_code == 2 and message in joined(done.stderr)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_without_data_the_command_says_what_to_do(name, monkeypatch, tmp_path):
    for variable in ("APVIZ_DATA", "APVIZ_CACHE"):
        (tmp_path / variable).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / variable))
    done = invoke(name, "--n", "200", folder=tmp_path)
    assert done.exit_code == 2
    assert "apviz datasets fetch" in joined(done.stderr) and "--dataset; china comes with" in joined(done.stderr)
    assert not (tmp_path / "out").exists()


def test_the_command_prints_the_table_and_the_note_and_writes_traces_and_a_report(small, tmp_path):
    done = invoke("predictive-mean", *OPTIONS, folder=tmp_path)
    assert done.exit_code == 0, done.stderr
    folder = tmp_path / "out/predictive-mean-n200-china-cpu"
    for words in ("(paper, Table 2)", "china (for sgemm)", "AP overlapping", "Ours at these n on", "thread",
                  str(folder / "report.html")):  # fmt: skip
        assert words in joined(done.stdout) or words in done.stdout.replace("\n", "")
    assert "3 of 3" in done.stderr
    assert len(list(folder.glob("*.zarr"))) == 3 and (folder / "report.html").exists()
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    again = invoke("predictive-mean", *OPTIONS, folder=tmp_path)
    assert again.stdout == done.stdout
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*.json")} == before


def test_a_cell_that_fails_is_named_and_the_table_so_far_is_shown(small, monkeypatch, tmp_path):
    def fail(*_):
        raise torch.OutOfMemoryError("2 GiB are missing")

    monkeypatch.setattr(ConjugateGradient, "epochs", fail)
    done = invoke("convergence", *OPTIONS, folder=tmp_path)  # alternating projection first
    assert done.exit_code == 2
    assert "2 GiB are missing" in joined(done.stderr) and "Finished cells are kept" in joined(done.stderr)
    assert "Alternating projection (greedy, b = 50)" in done.stdout
    assert "1 of 4 cells are done" in (tmp_path / "out/convergence-n200-china-cpu/report.html").read_text("utf-8")


@pytest.mark.slow
def test_ctrl_c_ends_with_the_table_so_far_and_the_same_command_resumes(tmp_path):
    # a solve of a second or more, long enough to be interrupted
    options = ("--n", "2000", *OPTIONS[2:])
    process = subprocess.Popen(
        [sys.executable, "-m", "apviz", "experiment", "rules", *options, "--out", str(tmp_path / "out")],
        env={**os.environ, "COLUMNS": "150"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    folder = tmp_path / "out/rules-n2000-china-cpu"
    deadline = time.monotonic() + 120
    while not (folder / "china-cyclic-seed0.zarr").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "interrupted: the table so far; repeat the command to resume" in errors
    assert re.search(r"^ gauss-southwell +\S", printed, re.MULTILINE) and "cyclic  " not in printed
    first = folder / "china-gauss-southwell-seed0.json"
    before = first.stat().st_mtime_ns
    done = invoke("rules", *options, folder=tmp_path)
    assert done.exit_code == 0, done.stderr
    assert first.stat().st_mtime_ns == before
    assert all(re.search(rf"^ {rule} +\S", done.stdout, re.MULTILINE) for rule in ("cyclic", "random"))
    assert apviz.open_trace(folder / "china-cyclic-seed0-interrupted.zarr").outcome == "interrupted"
