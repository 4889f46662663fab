"""The page Runs of a folder of small real runs, and the runs of the tests of page Compare."""

from __future__ import annotations

import pytest
import torch

import apviz


@pytest.fixture
def page(folder):
    from apviz.dashboard.pages.runs.page import Runs
    from tests.dashboard.visiting import visitor

    page = Runs(visitor(folder))
    page.main()
    page.settings()
    page.open()
    yield page
    page.shared.end()


class InterruptedAtOnce(apviz.Hook):
    """Interrupts a solve before the first update is recorded."""

    def on_update(self, update):
        raise KeyboardInterrupt


@pytest.fixture(scope="session")
def compared(tmp_path_factory):
    """Return runs of two methods with equal work per epoch, and one interrupted in its first epoch."""
    folder = tmp_path_factory.mktemp("compared")
    x = torch.rand(60, 2, generator=torch.Generator().manual_seed(0))
    y = torch.sin(3 * x[:, 0])
    system = apviz.KernelSystem(
        x, y[:, None], apviz.Matern52(lengthscale=0.5), noise=0.1, operator="dense", dataset="made", seed=0
    )

    def solve(name, solver, *hooks):
        apviz.solve(system, solver, hooks=[*hooks, apviz.Recorder(folder / f"{name}.zarr")])

    solve("gs", apviz.AlternatingProjection(block_size=20, tol=1e-6))
    solve("cyclic", apviz.AlternatingProjection(block_size=20, rule="cyclic", tol=1e-6))
    solve("again", apviz.AlternatingProjection(block_size=20, rule="cyclic", tol=1e-6))
    solve("cg", apviz.ConjugateGradient(tol=1e-6))
    with pytest.raises(KeyboardInterrupt):
        solve("cut", apviz.AlternatingProjection(block_size=20), InterruptedAtOnce())
    return folder


@pytest.fixture
def compared_runs(compared):
    from apviz.dashboard.store.runs_folder import RunsFolder

    return RunsFolder(compared)
