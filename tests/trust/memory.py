"""Every large allocation fails once: the k-th that PyTorch makes, or those beyond a limit of address space.

A case is its seed: a scenario, and the allocation that fails. It ends in a sentence that states the memory needed and
free, or it continues to the same numbers. Then the same objects do the same again, and give the usual results.
"""

from __future__ import annotations

import functools
import re
import resource
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import apviz
from apviz.solvers import attempt
from tests.processes import FRESH
from tests.trust.interrupt import SOLVERS, system
from tests.trust.verdicts import Verdict, judged

#: smallest counted allocation in bytes, the size of a right-hand side
LEAST = 300
#: pattern of a message, with the needed and the free memory
SENTENCE = re.compile(
    r"needs? (?:[\d.,]+ (?:MiB|GiB)|more memory).*, (?:[\d.,]+ (?:MiB|GiB)|too few bytes to measure them) are free; \w+"
)
ROWS_UNDER_A_LIMIT = 1_200


class Allocations(TorchDispatchMode):
    """Counts the allocations of PyTorch inside a `with`, and fails the k-th like the allocator."""

    def __init__(self, k: int | None = None) -> None:
        super().__init__()
        self.k, self.count, self.failed = k, 0, ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        pointers = {each.untyped_storage().data_ptr() for each in tree_leaves((args, kwargs)) if _is_tensor(each)}
        out = func(*args, **(kwargs or {}))
        for each in tree_leaves(out):
            if not _is_tensor(each) or each.untyped_storage().data_ptr() in pointers:
                continue
            nbytes = each.untyped_storage().nbytes()
            if nbytes < LEAST:
                continue
            self.count += 1
            if self.count == self.k:
                self.failed = f"{func} of {nbytes} bytes"
                raise RuntimeError(
                    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you "
                    f"tried to allocate {nbytes} bytes. Error code 12 (Cannot allocate memory)"
                )
        return out


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and value.device.type == "cpu"


# --- what is done -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """Something that allocates.

    Args:
        begin: makes the objects, which are used repeatedly.
        do: uses them in a folder, and returns numbers.
    """

    begin: Callable[[], Any]
    do: Callable[[Any, Path], bytes]


def _solution(found: Any) -> bytes:
    return found.weights.numpy().tobytes() + repr((found.residual, found.epochs, found.stop_reason)).encode()


def _recorded(solver: str, given: apviz.KernelSystem, folder: Path) -> bytes:
    return _solution(attempt(given, SOLVERS[solver](), [apviz.Recorder(folder / "a.zarr")]))


def _prepared(solver: str) -> Any:
    given = system("dense", torch.float64)
    return given, SOLVERS[solver](), SOLVERS[solver]().prepare(given.operator, 2)


def _training(optimiser: str, steps: int) -> apviz.Training:
    given = system("tiled", torch.float64)
    solver = apviz.AlternatingProjection(block_size=10, tol=1e-2, max_epochs=20)
    settings = apviz.TrainingSettings(solver=solver, steps=steps, probes=2, optimiser=optimiser)
    return apviz.Training(given.x, given.b[:, 0], settings, device="cpu", operator="tiled")


def _trained(training: apviz.Training, folder: Path) -> bytes:
    found = training.run()
    return repr((found.noise, found.lengthscale, found.outputscale, found.mean)).encode()


def _data() -> tuple[np.ndarray, np.ndarray]:
    given = system("dense", torch.float64)
    return given.x.numpy(), given.b[:, 0].numpy()


def _model() -> apviz.GaussianProcess:
    return apviz.GaussianProcess(max_steps=3, solver=apviz.Automatic(), device="cpu", random_state=0)


def _fitted(model: apviz.GaussianProcess, folder: Path) -> bytes:
    return model.fit(*_data()).predict(_data()[0][:7]).tobytes()


def _predicted(model: apviz.GaussianProcess, folder: Path) -> bytes:
    x = _data()[0][:9] + 0.01
    mean, deviation = model.predict(x, return_std=True)
    return mean.tobytes() + deviation.tobytes() + model.sample_y(x, 3, random_state=0).tobytes()


SCENARIOS: dict[str, Scenario] = {
    **{
        f"solve by {name}": Scenario(
            functools.partial(system, operator, torch.float64), functools.partial(_recorded, name)
        )
        for name, operator in zip(SOLVERS, ("dense", "tiled") * len(SOLVERS), strict=False)
    },
    "a system": Scenario(_data, lambda data, _: _solution(attempt(_system_of(*data), apviz.Cholesky()))),
    "prepare": Scenario(
        lambda: system("dense", torch.float64),
        lambda given, _: _solution(attempt(given, SOLVERS["overlapping"](), prepared=_of(given, "overlapping"))),
    ),
    "what is prepared": Scenario(
        lambda: _prepared("schwarz"), lambda made, _: _solution(attempt(made[0], made[1], prepared=made[2]))
    ),
    "training": Scenario(lambda: _training("adam", 3), _trained),
    # one step: a resumed L-BFGS starts again, as documented
    "training by L-BFGS": Scenario(lambda: _training("l-bfgs", 1), _trained),
    "fit": Scenario(_model, _fitted),
    "predict": Scenario(lambda: _model().fit(*_data()), _predicted),
}  # fmt: skip


def _system_of(x: Any, y: Any) -> apviz.KernelSystem:
    return apviz.KernelSystem(x, y, apviz.RBF(lengthscale=0.3), noise=0.1, device="cpu")


def _of(given: apviz.KernelSystem, solver: str) -> Any:
    return SOLVERS[solver]().prepare(given.operator, 2)


# --- how it is judged ---------------------------------------------------------------------------------------------


def case(seed: int) -> tuple[str, int]:
    """Return the scenario of a seed, and its limit in MiB; 0: the allocation that fails is `allocation(seed)`."""
    rng = np.random.default_rng(seed)
    limit = int(rng.integers(1, 60)) if rng.random() < 0.08 else 0
    return list(SCENARIOS)[seed % len(SCENARIOS)], limit


@functools.cache
def undisturbed(name: str) -> tuple[bytes, int]:
    """Return the result of a scenario, and its number of allocations."""
    counting = Allocations()
    with tempfile.TemporaryDirectory(prefix="apviz-trust-") as folder:
        made = SCENARIOS[name].begin()
        with counting:
            found = SCENARIOS[name].do(made, Path(folder))
    return found, counting.count


def allocation(seed: int) -> int:
    """Return the number of the allocation that fails: all of a scenario in turn."""
    name, _ = case(seed)
    return 1 + (seed // len(SCENARIOS) * 11) % undisturbed(name)[1]


@judged()
def judge(seed: int) -> Verdict:
    """Run the scenario of a seed with too little memory, and then again with enough."""
    name, limit = case(seed)
    return _limited(seed, limit) if limit else _injected(name, allocation(seed))


def _injected(name: str, k: int) -> Verdict:
    (want, _), scenario, failing = undisturbed(name), SCENARIOS[name], Allocations(k)
    made, how = scenario.begin(), "continued"
    with tempfile.TemporaryDirectory(prefix="apviz-trust-") as temporary:
        folder, second = Path(temporary) / "1", Path(temporary) / "2"
        try:
            with failing:
                found = scenario.do(made, folder)
            assert found == want, f"it continued to other numbers after {failing.failed}"
        except (MemoryError, apviz.TrainingError) as error:
            how = "a sentence"
            assert SENTENCE.search(str(error)), f"no sentence: {error} ({failing.failed})"
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error} ({failing.failed})") from error
        hidden = [each.name for each in folder.glob(".*")] if folder.exists() else []
        assert not hidden, f"left behind: {hidden}"
        if (folder / "a.zarr").exists():
            assert apviz.open_trace(folder / "a.zarr").outcome == "interrupted" or how == "continued"
        assert scenario.do(made, second) == want, f"the same objects give other numbers after {failing.failed}"
    return Verdict(how, failing.failed)


# --- a limit of address space -------------------------------------------------------------------------------------


def _large(seed: int) -> tuple[apviz.KernelSystem, Any]:
    rng = np.random.default_rng(seed)
    x, b = rng.uniform(size=(ROWS_UNDER_A_LIMIT, 3)), rng.standard_normal((ROWS_UNDER_A_LIMIT, 4))
    solvers = (
        apviz.Cholesky(), apviz.Automatic(tol=1e-2, max_epochs=5),
        apviz.AlternatingProjection(block_size=300, tol=1e-2, max_epochs=3),
        apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=100), tol=1e-2, max_epochs=5),
    )  # fmt: skip
    operator = ("dense", "tiled")[rng.integers(2)]
    given = apviz.KernelSystem(
        x, b, apviz.Matern32(lengthscale=0.5), noise=0.1, dtype=torch.float64, operator=operator, device="cpu"
    )
    return given, solvers[rng.integers(len(solvers))]


def _under_a_limit(seed: int, mebibytes: int, told: Any) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    how = "continued"
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    given, solver = _large(seed)
    recorder = apviz.Recorder()  # imports libraries, which a limit may keep from being loaded
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + (mebibytes << 20), hard))
    try:
        attempt(given, solver, [recorder])
    except MemoryError as error:
        how = "a sentence" if SENTENCE.search(str(error)) else f"no sentence: {error}"
    except Exception as error:
        how = f"{type(error).__name__}: {error}"
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    again = _solution(attempt(given, solver))
    fresh = _solution(attempt(*_large(seed)))
    told.send(how if again == fresh else "the system solves otherwise after it")


def _limited(seed: int, mebibytes: int) -> Verdict:
    heard, told = FRESH.Pipe(duplex=False)
    process = FRESH.Process(target=_under_a_limit, args=(seed, mebibytes, told))
    process.start()
    told.close()
    try:
        said = heard.recv() if heard.poll(300) else "it did not end"
    except EOFError:
        process.join()
        said = f"the process ended by {process.exitcode}"
    process.kill()
    process.join()
    return Verdict(f"limit: {said}") if said in ("continued", "a sentence") else Verdict("false", said)


def described(seed: int) -> dict[str, str]:
    """Describe a case in words."""
    name, limit = case(seed)
    return {"what": f"a solve with {limit} MiB"} if limit else {"what": name, "allocation": str(allocation(seed))}
