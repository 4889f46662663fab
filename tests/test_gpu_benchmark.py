"""The GPU benchmark, tested without a GPU: budgets, killed stages, the files of results, the kit, the summary."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import pytest

from apviz import doctor
from benchmarks.gpu import __main__ as runner
from benchmarks.gpu import budgets, kit, summary
from benchmarks.gpu.profiled import summed
from benchmarks.gpu.report import Report

OUT = "import json, pathlib, subprocess, sys, time; path = pathlib.Path(sys.argv[1])\n"
HANGING = OUT + (
    "path.write_text(json.dumps({'stage': 'x', 'at': 'two', 'entries': {'one': {'summary': '1'}}}))\n"
    "print('[x] one: 1', flush=True)\n"
    "subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
)
BROKEN_ONCE = OUT + (
    "tries = path.with_suffix('.tries'); before = tries.exists(); tries.touch()\n"
    "path.write_text(json.dumps({'entries': {'one': {}}}))\n"
    "sys.exit(0 if before else 75)\n"
)


@pytest.fixture
def options(tmp_path):
    return argparse.Namespace(out=tmp_path, device="cpu", tiny=True)


def run(monkeypatch, options, script, seconds):
    path = options.out / "x.json"
    monkeypatch.setattr(runner, "command", lambda *_: [sys.executable, "-c", script, str(path)])
    with (options.out / "log.txt").open("a") as log:
        state = runner.run_stage("x", seconds, options, log)
    return state, json.loads(path.read_text())


def test_eight_minutes_give_the_written_budgets_and_less_scales_them():
    stages = list(budgets.STAGES)
    assert sum(stage.seconds for stage in stages) == 480
    assert budgets.budget(480, stages) == pytest.approx(stages[0].seconds)
    assert budgets.budget(240, stages) == pytest.approx(stages[0].seconds / 2)


def test_unused_time_of_a_stage_goes_to_later_ones():
    stages = list(budgets.STAGES)
    assert budgets.budget(470, stages[1:]) > stages[1].seconds
    assert budgets.budget(100, stages[-1:]) == 100


def test_stages_are_chosen_by_letter_or_name_in_order_of_value():
    assert [stage.letter for stage in budgets.chosen("products, a")] == ["a", "c"]
    assert budgets.chosen("") == list(budgets.STAGES)
    with pytest.raises(ValueError, match="z"):
        budgets.chosen("a,z")


def test_a_killed_stage_keeps_its_measurements_and_its_children_end(monkeypatch, options, capsys):
    started = time.monotonic()
    state, found = run(monkeypatch, options, HANGING, 3.0)
    assert time.monotonic() - started < 20
    assert state == found["state"] == "killed at its budget of 3 s"
    assert found["entries"]["one"] == {"summary": "1"} and "killed" in found["entries"]["two"]["reason"]
    assert "[x] one: 1" in capsys.readouterr().out


def test_a_stage_whose_gpu_failed_is_started_again(monkeypatch, options):
    monkeypatch.setattr(runner, "LEAST_SECONDS", 0.0)
    state, found = run(monkeypatch, options, BROKEN_ONCE, 30.0)
    assert state == "ended" and found["entries"] == {"one": {}}


def test_a_crashed_stage_reports_its_exit_status(monkeypatch, options):
    state, _ = run(monkeypatch, options, OUT + "path.write_text('{\"entries\": {}}'); sys.exit(3)", 30.0)
    assert state == "ended with status 3"


def test_a_report_contains_machine_numbers_reasons_and_tracebacks_after_every_entry(tmp_path, capsys):
    path = tmp_path / "x.json"
    report = Report(path, "x", device="cpu", tiny=True, seconds=60)
    report.measure("right", lambda: {"number": 1.5, "summary": "1.5 s"})
    assert json.loads(path.read_text())["entries"]["right"]["number"] == 1.5
    report.measure("wrong", lambda: 1 / 0)
    report.measure("late", lambda: {}, needs=100)
    found = json.loads(path.read_text())
    assert "ZeroDivisionError" in found["entries"]["wrong"]["traceback"]
    assert found["entries"]["late"]["reason"].startswith("not started")
    assert {"gpu", "driver", "versions", "processor"} <= set(found["machine"])
    assert {"torch", "triton"} <= set(found["machine"]["versions"])
    assert "[x] right: 1.5 s" in capsys.readouterr().out


def test_a_report_does_not_measure_twice(tmp_path):
    path = tmp_path / "x.json"
    Report(path, "x", device="cpu", tiny=True, seconds=60).measure("one", lambda: {"number": 1})
    again = Report(path, "x", device="cpu", tiny=True, seconds=60)
    assert again.measure("one", lambda: {"number": 2}) is None and again.entries["one"]["number"] == 1


def test_a_profile_is_summed_per_update_and_per_epoch():
    events = [
        {"cat": "kernel", "name": "a", "ts": 0, "dur": 10}, {"cat": "kernel", "name": "a", "ts": 5, "dur": 10},
        {"cat": "gpu_memcpy", "name": "Memcpy DtoH", "ts": 40, "dur": 10, "args": {"bytes": 8}},
        {"cat": "cuda_runtime", "name": "cudaStreamSynchronize", "ts": 0, "dur": 1},
        {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 0, "dur": 1},
    ]  # fmt: skip
    found = summed(events, updates=2, epochs=1)
    assert found["per update"]["launches"] == 1 and found["per epoch"]["synchronisations"] == 1
    assert found["total"]["bytes to the host"] == 8 and found["idle"] == pytest.approx(0.5)


def test_a_kit_beyond_its_limit_is_not_made(monkeypatch, tmp_path):
    monkeypatch.setattr(kit, "collect_wheels", lambda to: (to / "a.whl").write_bytes(b"0" * 2**20))
    monkeypatch.setattr(kit, "collect_data", lambda to, data: (to / "data").write_bytes(b"0" * 2**20))
    monkeypatch.setattr(sys, "argv", ["kit", "--to", str(tmp_path / "kit"), "--data", str(tmp_path)])
    kit.main()
    monkeypatch.setattr(kit, "MOST_MIB", 1.5)
    with pytest.raises(SystemExit, match=r"2\.0 MiB, more than 1\.5"):
        kit.main()


def test_doctor_and_the_readme_agree_with_the_results():
    said = summary.sentences(summary.results())
    assert doctor.gpu_summary() == " ".join(said)
    assert summary.readme(summary.README.read_text(), said) == summary.README.read_text()


def test_the_summary_of_results_names_wrong_cases_and_those_that_did_not_run():
    machine = {"gpu": "NVIDIA X", "date": "2026-01-02T", "versions": {"torch": "2", "triton": "3"}, "device": "cuda"}
    entries = {
        "fused float32 rbf d=3": {"worst": 1e-7, "right": True},
        "fused float32 rbf d=13": {"worst": 1.0, "right": False},
        "keops float32 rbf d=3": {"reason": "failed: E", "traceback": "E"}, "doctor: GPU": {"found": "NVIDIA X"},
    }  # fmt: skip
    said = summary.sentences({"truth": {"machine": machine, "entries": entries}})
    assert said[0] == "Run on NVIDIA X on 2026-01-02, torch 2, Triton 3."
    assert said[1] == "Right to float64: fused in 1 of 2 cases, keops in 0 of 1 cases."
    assert said[2] == "Wrong or failed: fused float32 rbf d=13, keops float32 rbf d=3."
    assert said[-1].startswith("Not run: tests, ")
    assert summary.sentences({}) == [summary.NOTHING]


def test_results_from_a_cpu_or_of_tiny_sizes_do_not_count_as_gpu_results(tmp_path):
    for name, device, tiny in (("truth", "cpu", False), ("suite", "cuda", True)):
        content = {"machine": {"device": device}, "tiny": tiny, "entries": {"a": {}}}
        Path(tmp_path / f"{name}.json").write_text(json.dumps(content))
    assert summary.results(tmp_path) == {}
