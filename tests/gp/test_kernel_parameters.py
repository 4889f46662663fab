"""A kernel's shape parameter survives traces, trainings, saved models and GPyTorch's models."""

from __future__ import annotations

import contextlib
import json
import math

import gpytorch
import numpy as np
import pytest
import torch

import apviz
from apviz.analysis.sweeps import same_system
from apviz.dashboard.limits import Limits
from apviz.dashboard.settings.systems import spec_of
from apviz.gp.svgp import SVGP, SVGPSettings
from tests.device import DEVICE

KERNEL = apviz.RationalQuadratic(lengthscale=(0.4, 0.9), outputscale=1.3, alpha=0.3)
GIVEN = apviz.Hyperparameters.of(KERNEL, noise=0.05, mean=0.2)


def data(n=50):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, 2))
    return x, np.sin(3 * x[:, 0]) + 0.1 * rng.standard_normal(n)


def trained(steps=2, initial=GIVEN, **where):
    x, y = data()
    settings = apviz.TrainingSettings(kernel="rational-quadratic", solver=apviz.Cholesky(), steps=steps)
    training = apviz.Training(x, y, settings, initial=initial, dtype=torch.float64, device=DEVICE, **where)
    training.run()
    return training


def recorded(kernel):
    recorder = apviz.Recorder()
    x, y = data()
    apviz.solve(apviz.KernelSystem(x, y, kernel, noise=0.05, device=DEVICE), apviz.Cholesky(), [recorder])
    return recorder.trace


def test_hyperparameters_rebuild_their_kernel():
    assert GIVEN.build_kernel() == KERNEL
    assert apviz.Hyperparameters("rational-quadratic", (0.4, 0.9), 1.3, 0.05).build_kernel().alpha == 1.0


def test_kernels_without_shape_parameters_have_no_entry_for_them():
    assert "kernel_parameters" not in apviz.Hyperparameters("rbf", (0.4,), 1.3, 0.05).as_plain()
    assert GIVEN.as_plain()["kernel_parameters"] == {"alpha": 0.3}


def test_a_trace_records_the_shape_parameters_and_another_alpha_is_another_system(tmp_path):
    one, other, plain = (recorded(kernel) for kernel in (KERNEL, apviz.RationalQuadratic(alpha=0.3), apviz.RBF()))
    one.save(tmp_path / "one.zarr")
    reopened = apviz.open_trace(tmp_path / "one.zarr")
    assert json.loads(reopened.attrs["kernel_parameters"]) == {"alpha": 0.3}
    assert "kernel_parameters" not in plain.attrs
    same = [recorded(apviz.RationalQuadratic(alpha=alpha)) for alpha in (0.3, 2.0)]
    assert same_system(other, same[0]) and not same_system(other, same[1])


def test_a_caption_states_the_kernel_and_its_parameters():
    figure = apviz.plots.residuals([recorded(KERNEL)])
    assert "rational quadratic · alpha = 0.3" in json.dumps(figure.to_dict(), ensure_ascii=False, default=str)


@pytest.mark.parametrize("kernel", [KERNEL, KERNEL + apviz.Linear().on(1), apviz.RBF(lengthscale=0.4)], ids=repr)
def test_a_page_repeats_a_solve_with_the_kernel_of_the_trace(kernel):
    attrs = dict(recorded(kernel).attrs) | {"dataset": "china", "n": 50}
    spec = spec_of(attrs, lambda name: None)
    built = spec.build(Limits()).system
    assert built.kernel == spec.kernel == kernel and built.noise == 0.05


def test_a_training_of_a_named_kernel_changes_everything_except_alpha():
    training = trained()
    h, trace = training.hyperparameters, training.trace
    assert h.kernel_parameters == {"alpha": 0.3} and h.lengthscale != GIVEN.lengthscale
    assert trace.hyperparameters == h
    assert trace.hyperparameters_at(1).build_kernel().alpha == 0.3
    assert trained(initial=None).hyperparameters.kernel_parameters == {"alpha": 1.0}


def test_a_training_resumes_only_with_its_own_alpha(tmp_path):
    trained(1, path=tmp_path / "t.zarr")
    assert trained(2, path=tmp_path / "t.zarr").hyperparameters == trained(2).hyperparameters
    other = apviz.Hyperparameters.of(apviz.RationalQuadratic(lengthscale=(0.4, 0.9), outputscale=1.3), 0.05, 0.2)
    with pytest.raises(ValueError, match=r"belongs to another training: kernel_parameters was .*0\.3.*, is .*1\.0"):
        trained(2, other, path=tmp_path / "t.zarr")


def test_a_loaded_model_has_the_saved_alpha(tmp_path):
    x, y = data()
    gp = apviz.GaussianProcess(hyperparameters=GIVEN, device=DEVICE).fit(x, y)
    gp.save(tmp_path / "gp.npz")
    again = apviz.GaussianProcess.load(tmp_path / "gp.npz")
    assert again.hyperparameters_.build_kernel() == KERNEL
    np.testing.assert_array_equal(again.predict(x), gp.predict(x))


def test_svgp_trains_alpha_too():
    x, y = data()
    settings = SVGPSettings(kernel="rational-quadratic", inducing_points=10, schedule=((3, 0.1),))
    h = SVGP(x, y, settings, device=DEVICE).run()
    assert set(h.kernel_parameters) == {"alpha"} and h.build_kernel().alpha != pytest.approx(math.log(2), rel=1e-3)


# --- GPyTorch ---------------------------------------------------------------------------------------------------------


class Exact(gpytorch.models.ExactGP):
    def __init__(self):
        x, y = (torch.tensor(values) for values in data())
        super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RQKernel(ard_num_dims=2))
        self.double()
        self.covar_module.base_kernel.alpha = torch.tensor(0.3, dtype=torch.float64)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def loss(self):
        self.train()
        return -gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self)(
            self(*self.train_inputs), self.train_targets
        )


def test_a_gpytorch_kernel_with_fixed_alpha_has_the_gradients_of_gpytorch():
    model = Exact()
    model.covar_module.base_kernel.raw_alpha.requires_grad_(False)
    wanted = [p for p in model.parameters() if p.requires_grad]
    theirs = torch.autograd.grad(model.loss(), wanted)
    with apviz.gpytorch.alternating_projection():
        ours = torch.autograd.grad(model.loss(), wanted)
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their, rtol=1e-6, atol=1e-8)
    assert apviz.gpytorch.hyperparameters(model).kernel_parameters == {"alpha": pytest.approx(0.3)}


def test_alpha_is_trained_if_it_requires_a_gradient():
    gradients = []
    for context in (contextlib.nullcontext, lambda: apviz.gpytorch.alternating_projection(solver=apviz.Cholesky())):
        model = Exact()
        with context():
            model.loss().backward()
        gradients.append(model.covar_module.base_kernel.raw_alpha.grad)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-6, atol=1e-10)


def test_predictions_work_whether_alpha_is_trained_or_not():
    model, z = Exact().eval(), torch.tensor(data(20)[0])
    with torch.no_grad():
        theirs = model(z).mean
    model.train()
    with apviz.gpytorch.alternating_projection(solver=apviz.Cholesky()):
        ours = model.eval()(z).mean
    torch.testing.assert_close(ours.detach(), theirs, rtol=1e-6, atol=1e-8)
