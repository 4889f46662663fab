"""Count the operations that updates launch on a device, and those for which the host waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import apviz
from apviz import stacked_factors
from apviz.solvers import attempt
from apviz.solvers.run import Run

#: operations that make a tensor or a view of one, and launch nothing
FREE = frozenset({
    "_reshape_alias", "_unsafe_view", "alias", "as_strided", "detach", "diagonal", "empty", "empty_like",
    "empty_strided", "expand", "lift_fresh", "new_empty", "new_empty_strided", "permute", "select", "slice", "split",
    "squeeze", "t", "transpose", "unbind", "unsqueeze", "view",
})  # fmt: skip
#: operations that the host waits for, or whose result has a size that only the device knows
WAITING = frozenset({"_local_scalar_dense", "item", "is_nonzero", "nonzero", "masked_select", "unique", "equal"})


class Dispatches(TorchDispatchMode):
    """Counts operations, and those that wait; random draws of a rule on the host are not counted.

    Attributes:
        launches, waits: by name.
        is_on: whether it counts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.launches: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.is_on = False
        self._of_host: list[torch.Tensor] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        found = function(*args, **(kwargs or {}))
        if name.startswith("rand") and kwargs and kwargs.get("generator") is not None:
            self._of_host.append(found)
        elif self.is_on and not self._is_of_host(args):
            if name in WAITING or (name in ("index", "index_put", "index_put_") and by_mask(args[1])):
                self.waits[name] += 1
            elif name not in FREE:
                self.launches[name] += 1
        return found

    def _is_of_host(self, args: Any) -> bool:
        read = args[0].data_ptr() if args and isinstance(args[0], torch.Tensor) else None
        return any(each.data_ptr() == read for each in self._of_host)


def by_mask(indices: Sequence[Any]) -> bool:
    """Test whether a tensor is indexed by booleans, whose number of true entries only the device knows."""
    return any(isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8) for index in indices)


class InEpochs:
    """Switches counting on from the first update of every epoch to its last, including the driver's part.

    Args:
        dispatches: an object with an attribute `is_on`, such as `Dispatches`.
    """

    def __init__(self, monkeypatch: Any, dispatches: Any) -> None:
        self.updates = 0
        begin, end, updated = Run._begin, Run._end_epoch, Run._updated

        def begun(run: Run, *given: Any) -> Any:
            found = begin(run, *given)
            dispatches.is_on = True
            return found

        def ended(run: Run) -> Any:
            dispatches.is_on = False
            reason = end(run)
            dispatches.is_on = reason is None
            return reason

        def counted(run: Run, event: Any) -> Any:
            self.updates += 1
            return updated(run, event)

        monkeypatch.setattr(Run, "_begin", begun)
        monkeypatch.setattr(Run, "_end_epoch", ended)
        monkeypatch.setattr(Run, "_updated", counted)


class Counted(NamedTuple):
    """Operations of the updates of a solve, including those of the driver and of hooks."""

    launches: dict[str, int]
    waits: dict[str, int]
    updates: int

    @property
    def an_update(self) -> float:
        """Return the mean number of launches of an update."""
        return sum(self.launches.values()) / self.updates


def counted(system: apviz.KernelSystem, solver: Any, hooks: Sequence[Any] = (), *, stacked: bool) -> Counted:
    """Solve, and count the operations within epochs.

    Args:
        stacked: whether factors are stacked, as they are on a GPU.
    """
    dispatches = Dispatches()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stacked_factors, "STACKED_ON", ("cuda", "cpu") if stacked else ())
        prepared = solver.prepare(system.operator)
        assert prepared.factors.is_stacked is stacked
        epochs = InEpochs(patched, dispatches)
        with dispatches:
            attempt(system, solver, list(hooks), prepared=prepared)
    return Counted(dict(dispatches.launches), dict(dispatches.waits), epochs.updates)
