"""Diagnosis of a GPyTorch model: its main problem, and one change that fixes it, both measured.

The first rule that holds gives the answer:

1. *targets*, *inputs*: some are not finite. 2. *a step*: the data are finite, but hyperparameters are not.
3. *scale*: the dtype holds inputs in steps that are coarse for their range or lengthscale; then the rules on data and
hyperparameters of `apviz.analysis.diagnosis.data`, which solves share.
4. GPyTorch's results differ from Cholesky in float64: the log likelihood by more than 1 a row, a residual above 0.1, a
mean by 0.1 of its predictive deviation, a variance by a tenth, or a negative variance; or CG warned that it had not
converged. Changes are then tried one at a time. The first that removes all of these names the cause:

| change | cause |
|---|---|
| duplicate rows merged, if κ falls to a tenth | duplicates |
| `fast_pred_var` off, if only predictions are off | rank |
| smaller tolerances, if CG met the given ones | tolerance too loose |
| float64, and smaller tolerances with it | precision limit |
| `alternating_projection()`, then Cholesky | noise floor, if σ² is under 10⁻³ of k(x, x); else ill-conditioning |

If even Cholesky in float64 fails: *K is not positive definite*, or *the cause is unknown*.

5. *duplicates* whose targets contradict σ²; *a step*: losses that ended far above their lowest; *noise floor*: σ² is at
its lower bound, and a smaller one would be likelier. 6. *nothing*, with remarks on everything that was not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from gpytorch.models import ExactGP
from torch import Tensor

from apviz.analysis.diagnosis import Diagnosis, Limit, data
from apviz.analysis.diagnosis.data import Evidence
from apviz.analysis.diagnosis.engine import decide
from apviz.gpytorch.evaluated import a
from apviz.gpytorch.rescue import inspecting
from apviz.gpytorch.rescue.copying import Copy, copy_of
from apviz.gpytorch.rescue.measuring import exact, extreme_eigenvalues, solved
from apviz.gpytorch.rescue.model_diagnosis import ModelDiagnosis, reported
from apviz.gpytorch.rescue.remedies import Measured, shortened


def diagnose(
    model: Any,
    likelihood: Any = None,
    *,
    losses: Sequence[float] = (),
    test_inputs: Tensor | Sequence[Tensor] | None = None,
) -> ModelDiagnosis:
    """Find what is wrong with an `ExactGP`, and one change that fixes it, by the rules of this module.

    Call it where the problem occurs, inside the same `gpytorch.settings`. A copy of the model takes one training
    step and predicts once under these settings; the results are compared with Cholesky in float64. A proposed change
    has been tried in the same way. The model, its caches and torch's random numbers stay unchanged. Inside
    `alternating_projection()`, GPyTorch itself is measured. Of more than 2,000 rows, 2,000 are measured, drawn at
    random, with a noise that keeps κ; the evidence says so. It takes seconds to a minute, longer if more changes are
    tried, and about 0.5 GB at 2,000 rows.

    Args:
        likelihood: None: the model's.
        losses: of a training, one per step; they reveal a step that was too large.
        test_inputs: inputs at which predictions are compared, as the model takes them; None: some training inputs.

    Raises:
        TypeError: a model that is not an `ExactGP`.
        ValueError: one without training data.

    Examples:
        >>> import gpytorch, torch, apviz
        >>> class Model(gpytorch.models.ExactGP):
        ...     def __init__(self, x, y):
        ...         super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        ...         self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), gpytorch.kernels.RBFKernel()
        ...
        ...     def forward(self, x):
        ...         return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))
        >>> x = torch.linspace(0, 1, 100)
        >>> found = apviz.gpytorch.diagnose(Model(x, torch.sin(6 * x).log()))
        >>> found.limit.value, found.evidence.split(",")[0]
        ('the targets are not all finite', '49 of the 100 targets are NaN or infinite')
    """
    if not isinstance(model, ExactGP):
        hint = "; of a list, diagnose each of its models" if hasattr(model, "models") else ""
        raise TypeError(f"model must be a gpytorch.models.ExactGP, got {a(model)}{hint}")
    if model.train_inputs is None or model.train_targets is None:
        raise ValueError("the model has no training data: give it some with set_train_data")
    likelihood = model.likelihood if likelihood is None else likelihood
    n, losses = model.train_inputs[0].shape[-2], [float(loss) for loss in losses]
    found = (
        inspecting.targets_not_finite(model.train_targets)
        or inspecting.inputs_not_finite(model.train_inputs)
        or inspecting.parameters_not_finite(model, likelihood, losses)
    )
    if found is not None:
        return reported(found, n, tuple(inspecting.remarks(model, likelihood)))
    tests = (test_inputs,) if isinstance(test_inputs, Tensor) else test_inputs
    return _by_solving(model, likelihood, tests, losses)


def _by_solving(
    model: ExactGP, likelihood: Any, tests: Sequence[Tensor] | None, losses: Sequence[float]
) -> ModelDiagnosis:
    """Diagnose a model whose data and hyperparameters are finite."""
    n, remarks = model.train_inputs[0].shape[-2], tuple(inspecting.remarks(model, likelihood))
    try:
        given = copy_of(model, likelihood, tests)
    except Exception as error:  # whatever torch or the model cannot copy
        remarks += (f"Nothing was solved: the model cannot be copied ({shortened(error)}).",)
        finite = Diagnosis(
            Limit.UNKNOWN, "Its data and hyperparameters are finite.", "Call model.train(), and diagnose it again."
        )
        return reported(inspecting.inputs_coarse(model) or finite, n, remarks)
    try:
        truth = exact(given)
    except Exception as error:  # whatever GPyTorch raises
        astray = data.astray(inspecting.evidence_of(model, likelihood))
        found = astray if isinstance(astray, Diagnosis) else inspecting.inputs_coarse(model)
        found = found or _indefinite(given) or _unmeasured(given, error)
        return reported(found, n, remarks, rows=given.rows)
    evidence = inspecting.evidence_of(model, likelihood, truth, given.share, losses)
    remarks += (*data.remarks(evidence), *inspecting.remark_on_far(truth, evidence))
    measured = Measured(given, truth, n, remarks)
    rules: tuple[Callable[[Evidence], data.Answer], ...] = (
        data.astray, lambda known: inspecting.inputs_coarse(model),
        *(rule for rule in data.RULES if rule is not data.duplicates),
        measured.first_remedy, data.duplicates, data.stepped, data.on_floor,
    )  # fmt: skip
    return measured.reported(decide(rules, measured.nothing, evidence))


def _indefinite(given: Copy) -> Diagnosis | None:
    """Report a kernel that is not positive definite: K in float64 has a negative eigenvalue beyond rounding."""
    values = extreme_eigenvalues(given)
    if values is None or values[0] >= -torch.finfo(torch.float64).eps * given.rows * values[1]:
        return None
    evidence = (
        f"In float64 the eigenvalues of K, with the noise, lie between {values[0]:.3g} and {values[1]:.3g}: no solver "
        "and no precision fixes a negative eigenvalue."
    )
    advice = "Use another kernel. If yours is valid in one dimension only, use a product of it over the inputs."
    return Diagnosis(Limit.INDEFINITE, evidence, advice, {"kernel": "another"})


def _unmeasured(given: Copy, error: Exception) -> Diagnosis:
    native = solved(given, None)
    text = f" GPyTorch without changes raises {shortened(native.error)}." if native.error else ""
    evidence = f"Cholesky in float64, the reference of all measurements, is not possible: {shortened(error)}.{text}"
    return Diagnosis(Limit.UNKNOWN, evidence, "Add noise, or try the model with fewer rows and a simpler kernel.")
