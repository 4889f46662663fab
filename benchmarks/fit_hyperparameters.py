"""Write the hyperparameters on the cards in data/: exact GPs fitted to subsets, and the paper's values.

Run from the repository's root with APVIZ_DATA set. Needs GPyTorch; all take some minutes on two cores.

    python -m benchmarks.fit_hyperparameters [card ...]
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import gpytorch
import torch

from apviz import datasets
from apviz.datasets import Hyperparameters

CARDS = Path(__file__).parent.parent / "data"
ROWS, STEPS, RATE, NOISE_FLOOR = 2_000, 150, 0.1, 1e-4
FITTED = {
    "china": 13_696,
    "china-profile": None,
    "diabetes": None,
    "bike": None,
    "protein": None,
    "kin40k": None,
    "keggundirected": None,
}
PUBLISHED = {"sgemm": 0, "airquality": 0, "3droad": 0, "houseelectric": 3}  # name → seed of the published run
CAVEATS = {
    "3droad": "; the order of the inputs (OSM id, longitude, latitude) is our reading",
    "houseelectric": "; the order of the inputs is our reading",
}


class ExactGP(gpytorch.models.ExactGP):
    """Constant mean, Matérn-5/2 with one lengthscale per input."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: gpytorch.likelihoods.GaussianLikelihood) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(2.5, ard_num_dims=x.shape[1]))

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def fit(name: str, n: int | None) -> Hyperparameters:
    """Maximise the exact marginal likelihood of the first ROWS shuffled training rows with Adam."""
    data = datasets.load(name, seed=0, n=n, dtype=torch.float64)
    x, y = data.train_x[:ROWS], data.train_y[:ROWS]
    likelihood = gpytorch.likelihoods.GaussianLikelihood(
        noise_constraint=gpytorch.constraints.GreaterThan(NOISE_FLOOR)
    ).double()
    model = ExactGP(x, y, likelihood).double().train()
    likelihood.train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    with gpytorch.settings.max_cholesky_size(10 * ROWS):
        for _ in range(STEPS):
            adam.zero_grad()
            loss = -objective(model(x), y)
            loss.backward()
            adam.step()
    grid = f" of the picture thinned by stride {data.grid_stride} (n = {n:,})" if data.grid_stride else ""
    print(f"{name}: negative log marginal likelihood per row {loss.item():.4f}")
    return Hyperparameters(
        kernel="matern52",
        lengthscale=tuple(float(f"{v:.6g}") for v in model.covar_module.base_kernel.lengthscale.flatten().tolist()),
        outputscale=float(f"{model.covar_module.outputscale.item():.6g}"),
        noise=float(f"{likelihood.noise.item():.6g}"),
        mean=float(f"{model.mean_module.constant.item():.6g}"),
        provenance=f"exact GP fitted here (Cholesky, float64, {STEPS} Adam steps of {RATE}, "
        f"σ² ≥ {NOISE_FLOOR:g}) "
        f"to {len(y):,} training rows{grid}, seed 0",
    )


def write(name: str, found: Hyperparameters) -> None:
    """Replace the end of a card, which is its table of hyperparameters."""
    path = CARDS / f"{name}.toml"
    # what JSON writes of texts, numbers and lists of numbers is TOML
    lines = [f"{field} = {json.dumps(value, ensure_ascii=False)}" for field, value in asdict(found).items()]
    kept = path.read_text("utf-8").partition("\n[hyperparameters]")[0].rstrip()
    path.write_text("\n".join([kept, "", "[hyperparameters]", *lines]) + "\n", "utf-8")


def main() -> None:
    wanted = set(sys.argv[1:]) or {*PUBLISHED, *FITTED}
    if unknown := wanted - {*PUBLISHED, *FITTED}:
        raise SystemExit(f"{', '.join(sorted(unknown))}: add it to FITTED of {__file__} first")
    for name, seed in ((name, seed) for name, seed in PUBLISHED.items() if name in wanted):
        found = datasets.published_hyperparameters(name, seed=seed, step=48).hyperparameters
        write(name, replace(found, provenance=found.provenance + CAVEATS.get(name, "")))
    for name, n in ((name, n) for name, n in FITTED.items() if name in wanted):
        write(name, fit(name, n))


if __name__ == "__main__":
    main()
