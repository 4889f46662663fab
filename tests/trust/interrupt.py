"""Test Ctrl-C at any line, hooks that raise or modify their arguments, and threads that solve at once.

A case is its seed: a solve, and its disturbance. Afterwards the process must behave like a fresh one: the same
solves, and the disturbed system, give bit for bit the results of an undisturbed process.
"""

from __future__ import annotations

import functools
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import apviz
from apviz.partitions import KDTree
from apviz.preconditioners import Nystrom, TwoLevelSchwarz
from apviz.solvers import Subspace, attempt
from tests.processes import FRESH
from tests.trust.verdicts import Verdict, judged

ROWS = 40
APVIZ = str(Path(apviz.__file__).parent)
#: solvers with tolerances that they cannot reach in their few epochs, so that each runs to its limit
SOLVERS: dict[str, Callable[[], Any]] = {
    "gauss-southwell": lambda: apviz.AlternatingProjection(block_size=8, tol=1e-9, max_epochs=12),
    "random": lambda: apviz.AlternatingProjection(
        block_size=8, rule="random", step=Subspace(length=4), tol=1e-9, max_epochs=12
    ),
    "overlapping": lambda: apviz.AlternatingProjection(
        block_size=10, partition=KDTree(overlap=0.5), tol=1e-9, max_epochs=12
    ),
    "cg": lambda: apviz.ConjugateGradient(tol=1e-9, max_epochs=20),
    "schwarz": lambda: apviz.ConjugateGradient(preconditioner=TwoLevelSchwarz(block_size=10, coarse_rank=5), tol=1e-9),
    "nystrom": lambda: apviz.ConjugateGradient(preconditioner=Nystrom(rank=10), tol=1e-9),
    "cholesky": lambda: apviz.Cholesky(),
    "automatic": lambda: apviz.Automatic(tol=1e-9, max_epochs=12),
    "cd++": lambda: apviz.solvers.CoordinateDescentPlusPlus(tol=1e-9, max_epochs=12),
    "askotch": lambda: apviz.solvers.ASkotch(tol=1e-9, max_epochs=12),
}
DISTURBED = ("line", "line", "line", "timer", "timer", "raising hook", "writing hook", "writing hook", "threads")
CALLBACKS = ("on_start", "on_update", "measure", "on_epoch", "on_pass", "on_stop")


class Mine(Exception):
    """The error that a hook raises."""


# --- what is solved -----------------------------------------------------------------------------------------------


def system(operator: str, dtype: torch.dtype) -> apviz.KernelSystem:
    """Return a system with the same numbers each time."""
    x, b = np.random.default_rng(0).uniform(size=(ROWS, 2)), np.random.default_rng(1).standard_normal((ROWS, 2))
    kernel = apviz.Matern32(lengthscale=0.5) + 0.5 * apviz.RBF(lengthscale=0.3)
    return apviz.KernelSystem(x, b, kernel, noise=0.05, dtype=dtype, operator=operator, device="cpu")


@dataclass(frozen=True)
class Case:
    """What is solved and what disturbs it; `at` is the share of its lines, seconds or callbacks before that."""

    solver: str
    operator: str
    dtype: torch.dtype
    what: str
    trains: bool
    callback: str
    at: float

    def system(self) -> apviz.KernelSystem:
        """Return a new system, equal to all others of such a case."""
        return system(self.operator, self.dtype)


def case(seed: int) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)

    def one_of(values: Any) -> Any:
        return values[rng.integers(len(values))]

    what = one_of(DISTURBED)
    return Case(
        one_of(list(SOLVERS)), one_of(("dense", "tiled")), one_of((torch.float32, torch.float64)), what,
        what in ("line", "timer") and bool(rng.random() < 0.25), one_of(CALLBACKS), float(rng.random()),
    )  # fmt: skip


def solved(made: Case, given: apviz.KernelSystem | None = None, hooks: Any = ()) -> bytes:
    """Return all results of a solve, except times."""
    found = attempt(given or made.system(), SOLVERS[made.solver](), hooks)
    numbers = (found.residual, found.work, found.energy, found.epochs)
    words = (found.stop_reason.name, found.stop_message, *map(repr, numbers))
    return found.weights.numpy().tobytes() + found.residual_per_rhs.numpy().tobytes() + "|".join(words).encode()


def training(made: Case) -> apviz.Training:
    """Return a training of a few steps."""
    solver = apviz.AlternatingProjection(block_size=10, tol=1e-2, max_epochs=20)
    settings = apviz.TrainingSettings(solver=solver, steps=4, probes=2)
    given = made.system()
    return apviz.Training(given.x, given.b[:, 0], settings, device="cpu", operator=made.operator, dtype=made.dtype)


def trained(one: apviz.Training) -> bytes:
    """Return the results of a training."""
    return repr(one.run()).encode() + one.trace["step"]["residual"].values.tobytes()


def _in_a_fresh_process(made: Case, told: Any) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    told.send((solved(made), trained(training(made)) if made.trains else b""))


@functools.cache
def fresh(solver: str, operator: str, dtype: torch.dtype, trains: bool) -> tuple[bytes, bytes]:
    """Return the same solve, and training, in a process in which nothing else has happened."""
    heard, told = FRESH.Pipe(duplex=False)
    made = Case(solver, operator, dtype, "", trains, "", 0.0)
    process = FRESH.Process(target=_in_a_fresh_process, args=(made, told))
    process.start()
    assert heard.poll(120), "the solve does not end by itself"
    found: tuple[bytes, bytes] = heard.recv()
    process.join()
    return found


# --- what disturbs it ---------------------------------------------------------------------------------------------


class Lines:
    """A counter of apviz's executed lines that raises KeyboardInterrupt at the k-th; None: at none."""

    def __init__(self, k: int | None = None) -> None:
        self.k, self.count, self.where = k, 0, ""

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "call" and not frame.f_code.co_filename.startswith(APVIZ):
            return None
        if event == "line":
            self.count += 1
            if self.count == self.k:
                sys.settrace(None)
                self.where = f"{frame.f_code.co_filename.removeprefix(APVIZ)}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count inside a `with`."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            yield
        finally:
            sys.settrace(before)


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Press Ctrl-C after `seconds` seconds, unless the `with` has ended before."""
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, seconds))
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGINT, ctrl_c)


class Raising(apviz.Hook):
    """A hook that raises in one of its callbacks, at the k-th call of it."""

    def __init__(self, callback: str, k: int) -> None:
        self.callback, self.left = callback, k

    def _maybe(self, callback: str) -> None:
        self.left -= callback == self.callback
        if self.left <= 0 and callback == self.callback:
            raise Mine(callback)

    def on_start(self, run: Any) -> None:
        self._maybe("on_start")

    def on_update(self, update: Any) -> None:
        self._maybe("on_update")

    def measure(self, run: Any) -> dict[str, float]:
        self._maybe("measure")
        return {}

    def on_epoch(self, epoch: Any) -> None:
        self._maybe("on_epoch")

    def on_pass(self, found: Any) -> None:
        self._maybe("on_pass")

    def on_stop(self, solution: Any) -> None:
        self._maybe("on_stop")


class Writing(apviz.Hook):
    """A hook that writes nonsense into every tensor, array, list and mapping within its reach."""

    def __init__(self) -> None:
        self.wrote: set[str] = set()

    def _spoil(self, given: Any, name: str, depth: int = 0) -> None:
        for each in dir(given):
            if each.startswith("_"):
                continue
            try:
                value = getattr(given, each)
            except Exception:
                continue
            self._spoil_value(value, f"{name}.{each}", depth)

    def _spoil_value(self, value: Any, name: str, depth: int) -> None:
        try:
            if isinstance(value, torch.Tensor):
                value.fill_(7)
            elif isinstance(value, np.ndarray):
                value[...] = 7
            elif isinstance(value, dict):
                value["spoilt"] = 7
            else:
                if depth and type(value).__module__.startswith("apviz"):
                    self._spoil(value, name, depth - 1)
                return
            self.wrote.add(name)
        except (TypeError, ValueError, RuntimeError):  # it is read-only
            return

    def on_start(self, run: Any) -> None:
        self._spoil(run, "run")

    def on_update(self, update: Any) -> None:
        self._spoil(update, "update")

    def measure(self, run: Any) -> dict[str, float]:
        self._spoil(run, "run")
        return {}

    def on_epoch(self, epoch: Any) -> None:
        self._spoil(epoch, "epoch")

    def on_pass(self, found: Any) -> None:
        self._spoil(found, "pass")


# --- how it is judged ---------------------------------------------------------------------------------------------


def surroundings() -> dict[str, Any]:
    """Return the global state of a process, which a solve must not change."""
    return {
        "threads": torch.get_num_threads(), "default dtype": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(), "inference": torch.is_inference_mode_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul precision": torch.get_float32_matmul_precision(),
        "torch's generator": torch.get_rng_state().numpy().tobytes(), "Python's generator": random.getstate(),
        "NumPy's generator": np.random.get_state()[1].tobytes(), "Ctrl-C": signal.getsignal(signal.SIGINT),
        "threads alive": threading.active_count(), "NumPy's errors": tuple(np.geterr().items()),
    }  # fmt: skip


@judged()
def judge(seed: int) -> Verdict:
    """Disturb the solve of a seed, and solve again."""
    made = case(seed)
    want, want_trained = fresh(made.solver, made.operator, made.dtype, made.trains)
    given, recorder = made.system(), apviz.Recorder()
    one = training(made) if made.trains else None

    def work(*hooks: apviz.Hook) -> bytes:
        return trained(one) if one is not None else solved(made, given, [recorder, *hooks])

    before = surroundings()
    how, where = _disturbed(made, work, want)
    after = surroundings()
    changed = [name for name in before if before[name] != after[name]]
    assert not changed, f"{', '.join(changed)} differ after {where}"
    if recorder.traces:
        trace = recorder.trace  # xarray rejects variables of different lengths
        updates = trace["update"]["update"].values if "update" in trace else np.empty(0)
        assert np.array_equal(updates, np.arange(1, len(updates) + 1)), f"the trace is not whole, {where}"
    if made.what != "writing hook":
        again = solved(made, given)
        assert again == want, f"the system that was disturbed solves otherwise, {where}"
    assert solved(made) == want, f"the next solve differs from that of a fresh process, {where}"
    if one is not None:
        assert trained(one) == want_trained, f"the training resumes to another end, {where}"
    return Verdict(how, where)


def _disturbed(made: Case, work: Callable[..., bytes], want: bytes) -> tuple[str, str]:
    """Disturb a solve; return its outcome, and the place of the disturbance."""
    if made.what == "threads":
        return _in_threads(made)
    try:
        if made.what == "line":
            lines = Lines(1 + int(made.at * _lines(made)))
            with lines.watching():
                work()
            return "ended before", ""
        if made.what == "timer":
            with interrupted_after(made.at * _seconds(made)):
                work()
            return "ended before", ""
        if made.what == "raising hook":
            work(Raising(made.callback, 1 + int(made.at * 5)))
            return "never called", ""
    except KeyboardInterrupt:
        return f"Ctrl-C by {made.what}", f"interrupted at {lines.where}" if made.what == "line" else "after a while"
    except Mine:
        return "a hook raised", f"in {made.callback}"
    hook = Writing()
    found = work(hook)
    assert found == want, f"a hook that wrote into {', '.join(sorted(hook.wrote))} changed the solve"
    return "a hook wrote", ""


def _in_threads(made: Case) -> tuple[str, str]:
    """Run this solve and others at once, on systems of their own and, in pairs, on one."""
    cases = [Case(name, made.operator, made.dtype, "", False, "", 0.0) for name in SOLVERS]
    shared, found = made.system(), dict[int, bytes | BaseException]()
    barrier = threading.Barrier(len(cases))

    def work(number: int) -> None:
        barrier.wait()
        try:
            found[number] = solved(cases[number], shared if number % 2 else None)
        except BaseException as error:
            found[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(cases))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, each in enumerate(cases):
        assert found[number] == fresh(each.solver, each.operator, each.dtype, False)[0], (
            f"{each.solver} next to others: {found[number] if isinstance(found[number], BaseException) else 'differs'}"
        )
    return "threads at once", ""


def _work_of(made: Case) -> bytes:
    return trained(training(made)) if made.trains else solved(made, None, [apviz.Recorder()])


@functools.cache
def _lines_of(solver: str, operator: str, dtype: torch.dtype, trains: bool) -> int:
    lines, made = Lines(), Case(solver, operator, dtype, "", trains, "", 0.0)
    with lines.watching():
        _work_of(made)
    return lines.count


def _lines(made: Case) -> int:
    return _lines_of(made.solver, made.operator, made.dtype, made.trains)


def _seconds(made: Case) -> float:
    began = time.perf_counter()
    _work_of(made)
    return time.perf_counter() - began


def described(seed: int) -> dict[str, str]:
    """Describe a case in words."""
    made = case(seed)
    names = ("solver", "operator", "dtype", "what", "trains", "callback", "at")
    return {name: str(getattr(made, name)) for name in names}
