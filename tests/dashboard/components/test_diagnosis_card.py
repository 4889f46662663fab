"""The diagnosis on a page: its button, and the runs it is compared with."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("panel")

import apviz
from apviz.dashboard.components.diagnosis_card import DiagnosisCard


def recorded(solver, noise=0.1):
    x = torch.rand(300, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.sin(5 * x[:, 0])
    system = apviz.KernelSystem(
        x[:200], y[:200], apviz.Matern52(lengthscale=0.3), noise=noise, dtype=torch.float64, device="cpu"
    )
    recorder = apviz.Recorder()
    apviz.solve(system, solver, [apviz.PredictionHook(x[200:], y[200:]), recorder])
    return recorder.trace


@pytest.mark.parametrize("noise", [1e-6, 1.1e-6, 3e-7])
def test_the_button_says_a_number_that_a_person_would_type(noise):
    asked = []
    card = DiagnosisCard(lambda trace, diagnosis: asked.append(diagnosis.change))
    card.show(recorded(apviz.ConjugateGradient(tol=1e-2), noise))
    assert card._button.visible and card._button.label == f"Run again with noise = {10 * noise:.3g}"
    card._press()
    assert asked == [{"noise": float(f"{10 * noise:.3g}")}]


def test_a_run_that_was_cut_off_is_compared_with_those_beside_it():
    cut, exact = (
        recorded(apviz.AlternatingProjection(block_size=10, tol=1e-12, max_epochs=150)),
        recorded(apviz.Cholesky()),
    )
    assert not cut.converged
    card = DiagnosisCard(lambda trace, diagnosis: None)
    card.show(cut)
    assert "tolerance is tighter" not in card._limit.object
    card.show(cut, among=[cut, exact])
    assert "tolerance is tighter" in card._limit.object and card._button.label.startswith("Run again with tol = ")
