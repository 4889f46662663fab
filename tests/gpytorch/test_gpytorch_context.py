"""The context: restoring GPyTorch, nesting and threads, its settings, and the optional import."""

from __future__ import annotations

import importlib.util
import runpy
import subprocess
import sys
import threading

import gpytorch
import pytest
import torch
from test_gpytorch_examples import close, exactly, simple

import apviz

alternating_projection = apviz.gpytorch.alternating_projection


def test_gpytorch_is_restored_after_the_context_and_after_an_exception():
    before = vars(gpytorch.models.ExactGP)["__call__"]
    with alternating_projection():
        assert vars(gpytorch.models.ExactGP)["__call__"] is not before
    assert vars(gpytorch.models.ExactGP)["__call__"] is before
    with pytest.raises(ZeroDivisionError), alternating_projection(), alternating_projection(block_size=20):
        raise ZeroDivisionError
    assert vars(gpytorch.models.ExactGP)["__call__"] is before


@pytest.mark.filterwarnings("ignore:the value of the marginal")
def test_the_innermost_of_nested_contexts_applies():
    outer, inner = apviz.Recorder(), apviz.Recorder()
    with alternating_projection(block_size=50, hooks=[outer]):
        with alternating_projection(block_size=20, hooks=[inner]):
            simple().gradients()
        assert (len(outer.traces), len(inner.traces)) == (0, 1)
        simple().gradients()
    assert (len(outer.traces), len(inner.traces)) == (1, 1)
    assert inner.trace.method.block_size == 20


def test_other_threads_see_an_unchanged_gpytorch():
    recorder = apviz.Recorder()
    found = {}

    def elsewhere():
        with exactly():
            found.update(simple().gradients())

    with exactly():
        theirs = simple().gradients()
    with alternating_projection(block_size=50, hooks=[recorder]):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    close(found, theirs, rtol=0)
    assert not recorder.traces


def test_threads_that_exit_in_any_order_restore_gpytorch():
    before = vars(gpytorch.models.ExactGP)["__call__"]
    entered, may_leave = threading.Event(), threading.Event()

    def elsewhere():
        with alternating_projection():
            entered.set()
            may_leave.wait(10)

    thread = threading.Thread(target=elsewhere)
    with alternating_projection():
        thread.start()
        entered.wait(10)
    assert vars(gpytorch.models.ExactGP)["__call__"] is not before
    may_leave.set()
    thread.join()
    assert vars(gpytorch.models.ExactGP)["__call__"] is before


def test_the_solver_is_automatic_or_with_settings_overlapping_projections():
    def solved_with(**settings):
        recorder = apviz.Recorder()
        with alternating_projection(hooks=[recorder], **settings), torch.no_grad():
            simple().predict().mean  # noqa: B018
        return recorder.trace

    default = solved_with()
    assert default.attrs["solver"] == "Cholesky" and default.attrs["tol"] <= 1e-2  # the choice of Automatic at n = 100
    for settings in ({"tol": 1e-2}, {"step": "subspace"}):
        overlapping = solved_with(**settings)
        assert overlapping.method.partition == "principal-axis-tree"
        assert (overlapping.method.overlap, overlapping.attrs["tol"]) == (0.5, 1e-2)
    assert solved_with(block_size=30).method.block_size == 30
    # a block of all rows is a Cholesky solve
    assert solved_with(block_size=1000).converged
    paper = solved_with(block_size=25, partition="sequential", step="plain", tol=0.1)
    assert paper.method_name == "Alternating projection (greedy, b = 25)"
    assert solved_with(solver=apviz.ConjugateGradient(tol=1e-3)).method_name == "CG"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"block_size": 0}, "block_size must be a whole number"),
        ({"tol": -1.0}, "tol must be a positive relative residual"),
        ({"solver": "cg"}, "solver must be a solver"),
        ({"solver": apviz.Cholesky(), "tol": 0.1}, "not both"),
        ({"solver": apviz.Cholesky(), "block_size": 10}, "not both"),
        ({"variance_solver": "cg"}, "variance_solver must be a solver"),
        ({"probes": 0}, "probes must be a whole number, at least 1"),
        ({"probes": torch.ones(5)}, r"the shape of probes must be \(n, l\)"),
        ({"log_determinant": "exact"}, "log_determinant must be one of auto, lanczos, skip"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
    ids=str,
)
def test_a_setting_out_of_range_is_rejected_on_entry(settings, message):
    with pytest.raises(ValueError, match=message), alternating_projection(**settings):
        raise AssertionError("entered")


def test_importing_apviz_does_not_import_gpytorch():
    code = (
        "import sys, apviz; assert 'gpytorch' not in sys.modules; apviz.gpytorch.record_cg; "
        "assert 'gpytorch' in sys.modules"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("module", ["apviz.gpytorch", "apviz.gp.svgp"])
def test_without_gpytorch_the_error_says_how_to_install_it(module, monkeypatch):
    source = importlib.util.find_spec(module).origin
    monkeypatch.setitem(sys.modules, "gpytorch", None)
    with pytest.raises(ImportError, match=rf"{module} needs GPyTorch: pip install 'apviz\[gpytorch\]'"):
        runpy.run_path(source)


def test_an_unknown_attribute_of_apviz_raises_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing"):
        apviz.nothing  # noqa: B018
