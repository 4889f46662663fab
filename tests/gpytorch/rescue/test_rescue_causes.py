"""Causes are distinguished, the figures agree with NumPy, and the model is unchanged afterwards."""

from __future__ import annotations

import doctest
import re

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch import settings
from scipy.spatial.distance import cdist

import apviz
from apviz.analysis import Limit
from apviz.gpytorch.rescue import copying
from tests.gpytorch.rescue.models import (
    dense,
    far,
    gaussian,
    in_float64,
    model_of,
    on,
    predict,
    rbf,
    step,
    uniform,
    waves,
)
from tests.gpytorch.rescue.test_rescue_no_false_alarm import Multitask
from tests.gpytorch.test_gpytorch_examples import ExactGP, kernels, means

diagnose = apviz.gpytorch.diagnose
pytestmark = pytest.mark.filterwarnings("ignore:the value of the marginal")


def nan_targets():
    x, y = waves()
    y[[3, 7]] = np.nan
    return model_of(x, y, 0.01, rbf(0.3))


def nan_inputs():
    x, y = waves()
    # a constant column, standardised
    return model_of(np.c_[x, np.full_like(x, np.nan)], y, 0.01, rbf(0.3))


def too_large_a_step():
    model = model_of(*waves(), 0.01, rbf(0.3))
    model.likelihood.noise_covar.raw_noise.data.fill_(float("nan"))
    return model


def timestamps():
    x, y = waves()
    return model_of(1.7e9 + 3600 * x, y, 0.01, rbf(600.0), torch.float32)


def timestamps_in_float64():
    x, y = waves()
    return model_of(1.7e9 + 86400 * 365 * x, y, 0.01, rbf(0.7))


def tolerance_one():
    x = uniform(850, 2)
    return model_of(x, np.sin(5 * x[:, 0]), 1e-2, rbf(0.1))


def duplicates():
    rng = np.random.default_rng(0)
    x = np.repeat(rng.uniform(0, 1, (425, 1)), 2, axis=0)
    matern = kernels.ScaleKernel(kernels.MaternKernel(0.5))
    matern.base_kernel.lengthscale = 0.3
    return model_of(x, np.sin(3 * x[:, 0]) + 1e-2 * rng.standard_normal(850), 1e-7, matern)


def little_noise():
    x = uniform(850, 3)
    return model_of(x, np.sin(5 * x[:, 0]), 1e-5, rbf(1.0))


def targets_in_thousands():
    x, y = waves()
    return model_of(x, 5000 + 1000 * y, 0.01, rbf(0.3))


TOLD = [
    (nan_targets, Limit.TARGETS, "2 of the 200 targets are NaN, the first in row 3"),
    (nan_inputs, Limit.INPUTS, "column 1: 200"),
    (too_large_a_step, Limit.STEP, "likelihood.noise_covar.raw_noise is not finite"),
    (timestamps, Limit.SCALE, "like seconds since 1970"),
    (timestamps_in_float64, Limit.SCALE, "like seconds since 1970"),
    (tolerance_one, Limit.LOOSE, "tolerance of 1"),
    (duplicates, Limit.DUPLICATES, "425 of the 850 rows are duplicates"),
    (little_noise, Limit.NOISE, "σ² = 1e-05"),
    (targets_in_thousands, Limit.SCALE, "root mean square 4.96e+03"),
]


@pytest.mark.parametrize(
    ("make", "limit", "words"),
    [
        pytest.param(
            *told, id=told[0].__name__, marks=pytest.mark.slow if told[0] in (duplicates, little_noise) else ()
        )
        for told in TOLD
    ],
)
def test_causes_are_distinguished(make, limit, words):
    model = make()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.random.get_rng_state()
    found = diagnose(model)
    assert found.limit is limit and words in found.evidence and found.advice and found.change
    # the model and the process are unchanged afterwards
    assert all(torch.equal(value.nan_to_num(), before[name].nan_to_num()) for name, value in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state) and model.training and model.prediction_strategy is None


def test_nan_inputs_are_named_though_gpytorch_blames_the_training_inputs():
    model = nan_inputs()
    with pytest.raises(RuntimeError, match="You must train on the training inputs"):
        step(model)
    assert "must train on the training inputs" in diagnose(model).evidence


def test_scaling_in_float64_fixes_timestamps():
    x, y = waves()
    raw = 1.7e9 + 3600 * x
    assert (
        "different values are left in 200 rows" in diagnose(model_of(raw, y, 0.01, rbf(600.0), torch.float32)).evidence
    )
    scaled = (raw - raw.mean()) / raw.std()
    model = model_of(scaled, y, 0.01, rbf(600.0 / raw.std()), torch.float32)
    assert diagnose(model).limit is Limit.NOTHING
    z = on(torch.tensor(scaled[::5]))
    assert (
        max(far(predict(model, z.float()), dense(in_float64(model_of(scaled, y, 0.01, rbf(600.0 / raw.std()))), z)))
        < 0.01
    )


def test_fast_predictive_variances_of_too_low_a_rank_are_named():
    x = uniform(300, 2)
    model, z = model_of(x, np.sin(5 * x[:, 0]), 1e-2, rbf(0.3)), on(torch.tensor(uniform(30, 2, 1)))
    tight = settings.cg_tolerance(1e-2), settings.eval_cg_tolerance(1e-4)
    with settings.max_cholesky_size(100), settings.max_root_decomposition_size(10), tight[0], tight[1]:
        with settings.fast_pred_var():
            assert far(predict(model, z), dense(model, z))[1] > 1
            found = diagnose(model.train(), test_inputs=z)
        assert found.limit is Limit.RANK and found.change == {"fast_pred_var": False}
        assert far(predict(model.train(), z), dense(model, z))[1] < 0.02


def test_rising_losses_mean_a_step_too_large_if_nothing_else_is_wrong():
    x, y = waves()
    model = model_of(x, y, 0.01, rbf(0.3))
    assert diagnose(model, losses=[1.0, 0.5, 0.4]).limit is Limit.NOTHING
    found = diagnose(model, losses=[1.0, 0.4, 9.0])
    assert found.limit is Limit.STEP and "lowest in step 2, 0.4; in step 3 it is 9" in found.evidence


def test_inside_the_context_the_diagnosis_still_measures_gpytorch():
    model = tolerance_one()
    with apviz.gpytorch.alternating_projection():
        assert diagnose(model).limit is Limit.LOOSE


@pytest.mark.slow
def test_with_many_rows_the_diagnosis_measures_some_and_kappa_of_all(monkeypatch):
    monkeypatch.setattr(copying, "MEASURED_ROWS", 1200)
    x = uniform(1500, 2)
    found = diagnose(model_of(x, np.sin(5 * x[:, 0]), 1e-3, rbf(0.2)))
    assert (found.rows, found.all_rows) == (1200, 1500) and found.limit is Limit.LOOSE
    assert "Measured on 1,200 of the 1,500 rows" in found.evidence and "σ² = 0.001" in found.evidence
    kappa = np.linalg.eigvalsh(np.exp(-(cdist(x, x) ** 2) / (2 * 0.2**2)) + 1e-3 * np.eye(1500))[-1] / 1e-3
    assert float(re.search(r"κ ≈ λmax/σ² = ([\d.e+]+)", found.evidence)[1]) == pytest.approx(kappa, rel=0.1)


@pytest.mark.parametrize("kind", ["fixed", "several outputs", "batch"])
def test_a_part_of_the_rows_can_be_measured_for_every_kind_of_noise_and_targets(kind, monkeypatch):
    monkeypatch.setattr(copying, "MEASURED_ROWS", 200)
    x, y = torch.tensor(uniform(250, 1)), torch.tensor(uniform(250, 2))
    if kind == "fixed":
        noise = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(torch.full((250,), 0.1, dtype=torch.float64))
        model = ExactGP(x, y[:, 0], noise, kernel=rbf(0.5)).double()
    elif kind == "batch":
        base = kernels.RBFKernel(batch_shape=torch.Size([2]))
        likelihood = gpytorch.likelihoods.GaussianLikelihood(batch_shape=torch.Size([2]))
        model = ExactGP(x, y.T.contiguous(), likelihood, means.ConstantMean(batch_shape=torch.Size([2])), base).double()
    else:
        model = Multitask(x, y, gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=2)).double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = diagnose(model)
    assert found.rows == (100 if kind == "several outputs" else 200) and np.isfinite(found.before.mean)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_model_that_apviz_rejects_is_measured_by_gpytorch_alone():
    class Odd(kernels.RBFKernel):
        """A kernel whose entries depend on other rows."""

        def forward(self, x1, x2, **settings):
            return super().forward(x1 / x1.std(), x2 / x1.std(), **settings)

    x, y = waves(300)
    with settings.max_cholesky_size(0), settings.max_cg_iterations(15):
        found = diagnose(model_of(x, y, 1e-6, kernels.ScaleKernel(Odd())))
    assert found.limit is Limit.NOISE and found.change == {"dtype": "float64", "max_cholesky_size": 300}
    assert any("apviz's own solvers could not be tried: TypeError" in remark for remark in found.remarks)


def test_a_kernel_that_is_not_a_covariance_is_found_by_its_eigenvalue():
    x = uniform(300, 2)
    found = diagnose(model_of(x, np.sin(5 * x[:, 0]), 1e-3, kernels.CosineKernel()))
    assert found.limit is Limit.INDEFINITE and found.before is None
    period = 2 * np.log(2)  # the period of GPyTorch is half of it, and starts at log 2
    k = np.cos(2 * np.pi * cdist(x, x) / period) + 1e-3 * np.eye(300)
    assert f"between {np.linalg.eigvalsh(k)[0]:.3g} and" in found.evidence


@pytest.fixture(scope="module")
def of_duplicates():
    return diagnose(duplicates())


def test_the_figures_are_shown_as_text_and_as_html(of_duplicates):
    found = of_duplicates
    text, page = str(found), found._repr_html_()
    assert text == repr(found) and "GPyTorch as it is" in text and "with the change" in text
    assert "<table>" in page and found.table()[0]["residual"] in page


def test_objects_that_cannot_be_diagnosed_raise():
    with pytest.raises(TypeError, match=r"gpytorch.models.ExactGP, got a GaussianLikelihood"):
        diagnose(gaussian(0.1))
    with pytest.raises(ValueError, match="no training data"):
        diagnose(ExactGP(None, None, gaussian(0.1)))


def test_an_opened_trace_states_the_cause(of_duplicates, tmp_path):
    found = of_duplicates
    found.trace.save(tmp_path / "rescue.zarr")
    told = apviz.diagnose(apviz.open_trace(tmp_path / "rescue.zarr"))
    assert (told.limit, told.evidence, told.advice, told.change) == (
        found.limit, found.evidence, found.advice, dict(found.change),
    )  # fmt: skip
    assert list(told.figures) == found.table() and [row[""] for row in told.figures] == [
        "GPyTorch as it is", "with the change",
    ]  # fmt: skip
    assert told.figures[0]["residual"] == f"{found.before.residual:.2g}"


def test_the_example_in_the_docstring_runs():
    (example,) = [e for e in doctest.DocTestFinder().find(diagnose, "diagnose") if e.examples]
    assert not doctest.DocTestRunner().run(example).failed
