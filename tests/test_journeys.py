"""The journeys in ARCHITECTURE: the code enters every file that they name."""

import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import apviz
from apviz.comparison import build_system, choose_hyperparameters

ROOT = Path(__file__).parent.parent


def told(title: str) -> list[str]:
    """Return the files of a journey, in the order of the document."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    part = text.partition(f"**{title}:**\n\n")[2].partition("\n\n")[0]
    return re.findall(r"^\d+\. `(apviz/[\w/]+\.py)`", part, re.MULTILINE)


def entered(act) -> list[str]:
    """Return the files of apviz whose functions run, in the order of their first calls."""
    found: dict[str, None] = {}

    def note(frame, event, _):
        path = frame.f_code.co_filename
        is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED  # not the body of a module or class
        if event == "call" and is_function and path.startswith(f"{ROOT}/apviz/"):
            found[path.removeprefix(f"{ROOT}/")] = None

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return list(found)


def test_from_a_solve_to_a_point_of_its_figure_there_are_at_most_twelve_files(tmp_path):
    journey = told("From `apviz.solve` to a point on *Compare*")
    assert 6 <= len(journey) <= 12
    x = torch.linspace(0, 1, 60, dtype=torch.float64)
    system = apviz.KernelSystem(x, torch.sin(9 * x), apviz.Matern52(lengthscale=0.2), noise=0.05, device="cpu")
    path = tmp_path / "run.zarr"
    recorder = apviz.Recorder(path)

    def act():
        apviz.solve(system, apviz.AlternatingProjection(block_size=20), [recorder])
        apviz.plots.residuals(apviz.open_trace(path))

    # files of the dashboard run in a browser session
    shown = [each for each in journey if not each.startswith("apviz/dashboard")]
    met = entered(act)
    assert set(shown) <= set(met)
    drawing = met.index("apviz/plots/solves/residuals.py")
    assert all(met.index(each) < drawing for each in shown[:-1])


def test_from_a_csv_to_a_system_there_are_at_most_six_files(tmp_path):
    journey = told("From a CSV to a system")
    assert 4 <= len(journey) <= 6
    path = tmp_path / "table.csv"
    numbers = np.random.default_rng(0).normal(size=(50, 3))
    path.write_text("a,b,c\n" + "\n".join(",".join(map(str, row)) for row in numbers))

    def act():
        data = apviz.datasets.load_table(path, "c")
        chosen = choose_hyperparameters(data)
        build_system(data, chosen)

    assert set(journey) <= set(entered(act))


def test_from_a_gpytorch_model_to_a_variance_there_are_at_most_eight_files():
    gpytorch = pytest.importorskip("gpytorch")
    journey = told("From a GPyTorch model to a variance")
    assert 5 <= len(journey) <= 8
    x = torch.rand(300, 2, generator=torch.Generator().manual_seed(0))

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(x, torch.sin(3 * x[:, 0]), likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Model(gpytorch.likelihoods.GaussianLikelihood()).eval()

    def act():
        with apviz.gpytorch.alternating_projection(), torch.no_grad():
            model(x[:5] + 0.01).variance  # noqa: B018  # computed when it is read

    assert set(journey) <= set(entered(act))
