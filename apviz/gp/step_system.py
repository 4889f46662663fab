"""The system of one training step: targets minus mean, and probes, at the hyperparameters of the step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from apviz.gp.probes import Probes, draw
from apviz.hyperparameters import Hyperparameters
from apviz.solvers import Prepared, Solver
from apviz.system import KernelSystem


@dataclass(frozen=True, eq=False)
class StepSystem:
    """What a step solves, and with what.

    Args:
        system: its right-hand sides are the targets minus the mean, then the probes.
        prepared: by the solver, where the probes were drawn from its preconditioner; else None.
    """

    system: KernelSystem
    probes: Probes
    prepared: Prepared | None


def step_system(
    x: Tensor,
    y: Tensor,
    hyperparameters: Hyperparameters,
    solver: Solver,
    probes: int,
    seed: int,
    *,
    operator: str = "auto",
    dataset: str = "",
    dtype: torch.dtype | None = None,
) -> StepSystem:
    """The system of a step (paper, section 5.1).

    Args:
        x, y: (n, d) inputs and (n,) targets; the system takes its device from x.
        dtype: of the system; None: that of x.
        probes: l.
        seed: of the probes: `TrainingSettings.seed_of` the step.
    """
    h, dtype = hyperparameters, dtype or x.dtype
    targets = KernelSystem(x, y.double() - h.mean, h.build_kernel(), h.noise, operator, dtype, x.device)
    drawn, prepared = draw(solver, targets.operator, probes, seed)
    system = KernelSystem(
        x, torch.cat([targets.b, drawn.z], dim=1), targets.kernel, targets.noise, targets.operator,
        targets.dtype, targets.device, dataset=dataset, seed=seed,
    )  # fmt: skip
    return StepSystem(system, drawn, prepared)
