"""`apviz doctor` on this machine, and on simulated ones where something is missing or wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from apviz import doctor
from apviz.cli import app
from apviz.doctor import Engine, Finding, engines, machine, solves, try_engine
from apviz.operators import OPERATORS, native

CPU = torch.device("cpu")


def of(findings, subject):
    return next(each for each in findings if each.subject.startswith(subject))


@pytest.fixture
def little(monkeypatch):
    """Measure so few columns that it takes no time."""
    monkeypatch.setattr(doctor, "FAST_COLUMNS", 50)


@pytest.mark.parametrize(
    "name", ["stored matrix", "compiled tiles", "torch tiles", pytest.param("KeOps", marks=pytest.mark.slow)]
)
def test_every_engine_of_this_machine_is_correct_and_has_a_speed(name, little):
    found = engines(CPU, keops=True)
    if name not in found:
        pytest.skip(f"{name} cannot be had here")
    rates = {}
    finding = try_engine(name, replace(found[name], rows=500), CPU, rates)
    assert not finding.is_wrong and not finding.advice and finding.found.startswith("right; ")
    assert rates[name] > 0 and "million entries a second" in finding.found


class OffByLittle(OPERATORS["dense"]):
    """An engine that errs in the fourth digit."""

    def matmul(self, v):
        return super().matmul(v) * (1 + 5e-4)


def test_an_engine_that_errs_in_the_fourth_digit_is_found(little):
    finding = try_engine("made up", Engine(OffByLittle, rows=500), CPU, {})
    assert finding.is_wrong and finding.found.startswith("wrong: ") and "report it" in finding.advice


def broken(*args):
    raise OSError("the driver is gone")


def test_an_engine_that_fails_is_reported_with_its_error(little):
    finding = try_engine("KeOps", Engine(broken), CPU, {})
    assert finding.is_wrong and finding.found == "it failed: OSError: the driver is gone"
    assert "clean_pykeops" in finding.advice


def test_every_kind_of_method_solves_here():
    found = list(solves(CPU))
    assert len(found) == 5 and not [each for each in found if each.is_wrong or each.advice]
    assert all("residual" in each.found for each in found)


def test_without_a_compiler_the_doctor_says_what_to_install(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    finding = of(machine(), "C++ compiler")
    assert "'no-such-compiler' is not on the path" in finding.found and "apt install g++" in finding.advice


def test_a_compiler_that_fails_gives_no_compiled_engine(monkeypatch):
    monkeypatch.setattr(native, "library", lambda structure=None: None)
    assert "does not build" in of(machine(), "C++ compiler").found
    assert "compiled tiles" not in engines(CPU, keops=False)


@pytest.mark.parametrize(
    ("prebuilt", "library", "said"),
    [
        (object(), object(), "prebuilt for AVX2"),
        (None, object(), "compiled on this machine"),
        (None, None, "torch tiles, as there is no compiled engine"),
    ],
)
def test_the_doctor_says_where_the_engine_comes_from(prebuilt, library, said, monkeypatch):
    monkeypatch.setattr(native, "prebuilt", lambda structure: prebuilt)
    monkeypatch.setattr(native, "library", lambda structure=None: library)
    monkeypatch.setattr(native, "instruction_set", lambda: "avx2")
    assert of(machine(), "CPU engine").found.startswith(said)


def test_little_memory_few_threads_and_missing_packages_get_advice(monkeypatch):
    monkeypatch.setattr(doctor, "free_memory", lambda device: 2**29)
    monkeypatch.setattr(doctor.psutil.Process, "cpu_affinity", lambda self: list(range(16)), raising=False)
    monkeypatch.setattr(doctor.torch, "get_num_threads", lambda: 1)
    version = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: "" if name in ("panel", "h5py") else version(name))
    found = list(machine())
    assert "0.5 GiB free for this process" in of(found, "memory").found and "ulimit -v" in of(found, "memory").advice
    assert "uses 1 of 16 cores" in of(found, "processor").advice
    assert of(found, "versions").advice == "for more: pip install 'apviz[dashboard,hdf5]'"


def test_a_driver_without_a_gpu_visible_to_torch_is_reported(monkeypatch):
    monkeypatch.setattr(doctor.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}")
    finding = doctor._gpu()
    assert "sees no GPU" in finding.found and "build without CUDA" in finding.advice


@pytest.mark.parametrize(("is_wrong", "status"), [(False, 0), (True, 2)])
def test_the_command_marks_errors_and_exits_with_their_status(monkeypatch, is_wrong, status):
    found = [Finding("memory", "[much]"), Finding("tiles", "odd", "fix it", is_wrong=is_wrong)]
    monkeypatch.setattr("apviz.cli.showing.examine", lambda keops: iter(found))
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == status and "memory: [much]" in done.stdout and "→ fix it" in done.stdout
    assert ("wrong results on this machine: tiles" in done.output) == is_wrong
