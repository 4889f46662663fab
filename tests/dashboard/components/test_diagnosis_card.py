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
def test_the_button_shows_a_round_number(noise):
    asked = []
    card = DiagnosisCard(lambda trace, diagnosis: asked.append(diagnosis.change))
    card.show(recorded(apviz.ConjugateGradient(tol=1e-2), noise))
    assert card._button.visible and card._button.label == f"Run again with noise σ² {10 * noise:.3g}"
    card._press()
    assert asked == [{"noise": float(f"{10 * noise:.3g}")}]


def test_an_unconverged_run_is_compared_with_the_others_shown():
    cut, exact = (
        recorded(apviz.AlternatingProjection(block_size=10, tol=1e-12, max_epochs=150)),
        recorded(apviz.Cholesky()),
    )
    assert not cut.converged
    card = DiagnosisCard(lambda trace, diagnosis: None)
    card.show(cut)
    assert "tolerance is tighter" not in card._limit.object
    card.show(cut, among=[cut, exact])
    assert "tolerance is tighter" in card._limit.object and card._button.label.startswith("Run again with tolerance ")


def rescued():
    """Return the trace of GPyTorch's CG for a model diagnosed by `apviz.gpytorch.diagnose`."""
    gpytorch = pytest.importorskip("gpytorch")
    x = torch.rand(300, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).repeat(2, 1)

    class Model(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(x, torch.sin(5 * x[:, 0]), gpytorch.likelihoods.GaussianLikelihood())
            self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), gpytorch.kernels.MaternKernel(0.5)

        def forward(self, z):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(z), self.covar_module(z))

    model = Model().double()
    model.likelihood.noise_covar.register_constraint("raw_noise", gpytorch.constraints.GreaterThan(1e-9))
    model.likelihood.noise = 1e-7
    with gpytorch.settings.max_cholesky_size(400):
        return apviz.gpytorch.diagnose(model)


def test_a_run_of_gpytorch_shows_the_cause_in_its_model_and_the_change(tmp_path):
    found = rescued()
    found.trace.save(tmp_path / "rescue.zarr")
    card = DiagnosisCard(lambda trace, diagnosis: None)
    card.show(apviz.open_trace(tmp_path / "rescue.zarr"))
    assert card.view.visible and card._of.object == "Diagnosis of GPyTorch CG"
    assert card._limit.object == "Duplicate rows"
    assert "300 of the 600 rows are duplicates" in card._evidence.object and "Merge duplicates" in card._advice.object
    (table,) = card._figures
    assert table.object.set_index("")["with the change"].to_dict() | {"": "with the change"} == found.table()[1]
    assert table.object.columns.tolist() == ["", "GPyTorch as it is", "with the change"]
    # it cannot be solved again here, because data and program belong to the user
    assert not card._button.visible
