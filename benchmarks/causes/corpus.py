"""The systems as files, which a diagnoser in any language can read: a folder for each, and the answers apart."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gpytorch
import numpy as np
import torch

from benchmarks.causes.models import Model, ModelCase, TrainingCase
from benchmarks.causes.running import AnyCase, case_of
from benchmarks.causes.systems import Case

#: version of the format
FORMAT = 1
ANSWERS = "answers.json"


def write(folder: Path, numbers: Iterable[int], seed: int) -> Path:
    """Write systems into a new folder, and their causes into `answers.json` in it.

    Raises:
        FileExistsError: the folder exists.
    """
    folder.mkdir(parents=True)
    answers = {}
    for number in numbers:
        case = case_of(number, seed)
        write_case(folder / f"{number:03d}", case, seed)
        answers[f"{number:03d}"] = {"cause": case.cause, "why": case.why}
    about = {"format": FORMAT, "seed": seed, "answers": answers}
    (folder / ANSWERS).write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return folder


def write_case(folder: Path, case: AnyCase, seed: int) -> None:
    """Write one system: what was solved or modelled, and its traces; nothing of its cause."""
    folder.mkdir()
    about: dict[str, Any] = {"format": FORMAT}
    if isinstance(case, Case):
        data = case.data(seed=seed)
        *others, trace = case.solved(data, seed)
        arrays = {"x": data.x, "y": data.y, "test_x": data.test_x, "test_y": data.test_y}
        trace.save(folder / "trace.zarr")
        for place, other in enumerate(others):
            other.save(folder / f"other-{place}.zarr")
        about |= {"kind": "solve"}
    elif isinstance(case, TrainingCase):
        arrays = {"x": case.x, "y": case.y}
        case.trained().save(folder / "trace.zarr")
        about |= {"kind": "training"}
    else:
        about |= {"kind": "model", **described(case)}
        arrays = {"x": case.model.train_inputs[0].numpy(), "y": case.model.train_targets.numpy()}
        if case.test_inputs is not None:
            arrays["test_x"] = case.test_inputs.numpy()
    np.savez(folder / "data.npz", **arrays)
    (folder / "case.json").write_text(json.dumps(about, indent=1) + "\n", "utf-8")


def described(case: ModelCase) -> dict[str, Any]:
    """Return a GPyTorch model as plain data: a constant mean, and a scaled RBF kernel with one lengthscale."""
    model, likelihood = case.model, case.model.likelihood
    kernel = model.covar_module
    assert isinstance(kernel, gpytorch.kernels.ScaleKernel)
    assert isinstance(kernel.base_kernel, gpytorch.kernels.RBFKernel)
    is_fixed = isinstance(likelihood, gpytorch.likelihoods.FixedNoiseGaussianLikelihood)
    return {
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
        "kernel": "ScaleKernel(RBFKernel)",
        "lengthscale": kernel.base_kernel.lengthscale.item(),
        "outputscale": kernel.outputscale.item(),
        "mean": model.mean_module.constant.item(),
        "noise": likelihood.noise.tolist() if is_fixed else likelihood.noise.item(),
        "noise_bound": None if is_fixed else likelihood.noise_covar.raw_noise_constraint.lower_bound.item(),
        "raw": {name: value.tolist() for name, value in model.named_parameters()},
        "losses": case.losses,
        "fast_variances": case.fast_variances,
    }


def model_of(folder: Path) -> tuple[Any, dict[str, Any], torch.Tensor | None]:
    """Return the GPyTorch model of a case, its description, and the test inputs, if it has any."""
    about = json.loads((folder / "case.json").read_text("utf-8"))
    dtype = getattr(torch, about["dtype"])
    with np.load(folder / "data.npz") as data:
        x, y = (torch.tensor(data[name], dtype=dtype) for name in ("x", "y"))
        z = torch.tensor(data["test_x"]) if "test_x" in data else None
    if isinstance(about["noise"], list):
        likelihood: Any = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(torch.tensor(about["noise"], dtype=dtype))
    else:
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(x, y, likelihood, gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())).to(dtype)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(torch.tensor(about["raw"][name], dtype=dtype))
    return model, about, z
