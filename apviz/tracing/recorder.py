"""The recorder: a hook that records everything about a solve, in memory and on disk."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from apviz.distributed import records
from apviz.places import Place, place_of
from apviz.solvers.interface import Epoch, Hook, Solution, Update
from apviz.solvers.measuring.refinement import Pass
from apviz.solvers.run import Run
from apviz.spectrum import SUBSAMPLE_ROWS, Method, spectrum
from apviz.tracing.attributes import solve_attributes
from apviz.tracing.inputs import input_attributes, kappa_of_distinct_rows, put_rows
from apviz.tracing.lock import Lock
from apviz.tracing.schema import FINISHED
from apviz.tracing.spectra import put_eigenvalues, put_spectrum
from apviz.tracing.store import Record, TraceStore, what_to_do
from apviz.tracing.trace import Trace

ENERGIES = (("update", "energy_decrease"), ("epoch", "energy"))
# how both are known in a solve with skeletons
BY_SKELETONS = "by columns of which most are a skeleton's; exact after an epoch that ends with a pass in float64"
# the same for colours
BY_COLOURS = (
    "of a colour as that of exact solves, an estimate; the step that ends a sweep has the rest, so the sum of a sweep "
    "is known"
)
# time between flushes ÷ time of a flush, at least: flushes take at most 1% of a solve
FLUSH_SHARE = 100


class Recorder(Hook):
    """Record every solve that has it among its hooks; `trace` is the last one, `traces` are all of them.

    Updates stay on the device and are moved once per epoch. With a path, the trace is appended to disk while the solve
    runs, at most once per epoch and for at most 1% of the time. A flush takes 10 to 40 ms, so the trace on disk is
    one to four seconds old. A kill loses what came after the last flush; Ctrl-C and errors lose nothing. A full disk
    is warned about once; the trace stays in memory. Where ranks share a solve, all have the recorder among their
    hooks, and rank 0 writes.

    Args:
        path: a new directory, by convention `*.zarr`, or a URL of an object store, such as
            `s3://bucket/runs/ap.zarr`; the second solve goes to `*-2.zarr`, and so on. A `Lock` reserves its path
            before the first solve.
        spectrum: how to compute λmax and λmin (`exact`, `lanczos`, `subsample`, see `apviz.spectrum.spectrum`);
            None chooses exact up to n = 1,000, else subsample, which costs about 1.5 million kernel entries. Its time
            does not count as the solve's, nor does counting distinct rows.
        spectrum_rows: number of rows of the subsample; fewer for many short solves, as in a training.
        eigenvalues: also record all eigenvalues of K, and of P⁻¹K for a preconditioned solver (group `eigenvalues`),
            for n up to 4,000. They take n³ time before the first update, which does not count as the solve's either.
        rows: also record the inputs of each row and which blocks hold it (group `rows`), for pictures.
        snapshots: numbers of updates after which to record the residual of the first right-hand side (0: before),
            such as `range(0, 60)`.
        final_snapshot: also record the last residual of a solve.
        weights: also record the weights of the first right-hand side in snapshots, for `apviz.analysis.functions`.
        only_last: keep only the last solve in memory, for long trainings.

    Raises:
        FileExistsError: when a solve starts and its path exists, or another writer holds its lock.
        ValueError: a URL of a store that fsspec does not know; when a solve with more than 4,000 rows starts and
            `eigenvalues` is set.

    Examples:
        >>> import torch, apviz
        >>> x = torch.linspace(0, 1, 200, dtype=torch.float64)
        >>> system = apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.01, device="cpu")
        >>> recorder = apviz.Recorder()
        >>> solution = apviz.solve(system, apviz.AlternatingProjection(block_size=50), hooks=[recorder])
        >>> trace = recorder.trace
        >>> bool(abs(trace["update"]["energy_decrease"].sum() + solution.energy) < 1e-9)  # h(0) = 0
        True
    """

    def __init__(
        self,
        path: str | Place | Lock[Any] | None = None,
        *,
        spectrum: Method | None = None,
        spectrum_rows: int = SUBSAMPLE_ROWS,
        eigenvalues: bool = False,
        rows: bool = False,
        snapshots: Iterable[int] = (),
        final_snapshot: bool = False,
        weights: bool = False,
        only_last: bool = False,
    ) -> None:
        if not records():
            path = None
        self._lock = path if isinstance(path, Lock) else None
        self.path = path.path if isinstance(path, Lock) else None if path is None else place_of(path)
        self.spectrum, self.spectrum_rows, self.eigenvalues = spectrum, spectrum_rows, eigenvalues
        self.rows, self.snapshots, self.weights = rows, frozenset(snapshots), weights
        self.final_snapshot, self.only_last = final_snapshot, only_last
        self._records: list[Record] = []
        self._recording = False
        self._now: Callable[[], float] = time.perf_counter
        self._warned = False
        self._flush_seconds: float | None = None

    @property
    def traces(self) -> list[Trace]:
        """Return the traces, one a solve, in order, interrupted ones too."""
        return [record.to_trace() for record in self._records]

    @property
    def trace(self) -> Trace:
        """Return the trace of the last solve.

        Raises:
            LookupError: no solve had this recorder among its hooks.
        """
        if not self._records:
            raise LookupError("nothing is recorded yet: pass the recorder in hooks=[recorder] to apviz.solve")
        return self._records[-1].to_trace()

    def take(self) -> Record:
        """Remove the record of the last solve, and return it."""
        return self._records.pop()

    def adopt(self, record: Record) -> None:
        """Add the growing record of a solve that `apviz.solve` does not run, as the last of the traces.

        Raises:
            FileExistsError: the path of its trace exists, or another writer holds its lock.
        """
        self._now = time.perf_counter
        self._open(record)
        self._records.append(record)

    def flush_if_due(self) -> None:
        """Flush, if that takes at most 1% of the time since the last flush."""
        if self._flush_seconds is None or self._now() - self._flushed > FLUSH_SHARE * self._flush_seconds:
            self.flush()

    def flush(self) -> None:
        """Write the last record to disk; warn once if that fails."""
        if self._store is None:
            return
        started = time.perf_counter()
        try:
            self._store.flush()
            self._release()  # from now on the folder itself keeps others away
        except OSError as error:
            if not self._warned:
                warnings.warn(
                    f"the trace could not be written to {self._store.path} ({error}); it is kept in memory, and every "
                    f"later flush tries again: {what_to_do(error)}, or save it elsewhere with "
                    "recorder.trace.save(path)",
                    stacklevel=2,
                )
            self._warned = True
        self._flush_seconds = time.perf_counter() - started
        self._flushed = self._now()

    def on_start(self, run: Run) -> None:
        if self.only_last:
            self._records.clear()
        self._run, self._pending = run, list[Update]()
        # the clock of the solve: a solve that waits in a race is not due at every turn
        self._now = run.seconds
        with run.clock.pause():
            block_matrices = run.factors.matrices() if run.factors else ()
            found = spectrum(run.system, block_matrices, self.spectrum, rows=self.spectrum_rows, leading=True)
            record = Record(solve_attributes(run) | input_attributes(run.system))
            distinct = record.attrs["distinct_rows"]
            merged = kappa_of_distinct_rows(run.system, distinct, self.spectrum, self.spectrum_rows)
        # raises where the path exists, before anything is recorded
        self._open(record)
        if self.eigenvalues:
            with run.clock.pause():
                put_eigenvalues(record, run)
        self._records.append(record)
        self._recording = True
        self._guarantee, self._squared_rhs_norms = math.nan, run.rhs_norms.square()
        put_spectrum(record, found)
        if merged is not None:
            record.group_attrs["spectrum"]["kappa_of_distinct_rows"] = merged
        if run.partition is not None and run.factors is not None:
            record.put(
                block={
                    "block": range(len(run.partition)),
                    "owned_size": run.partition.owned_sizes(),
                    "solved_size": run.partition.solved_sizes(),
                    "lambda_max": found.blocks,
                    "jitter": run.factors.jitter,
                }
            )
            if run.solver.method.skeleton_rank:
                record.variable_attrs |= {key: {"how": BY_SKELETONS} for key in ENERGIES}
            else:
                self._guarantee = 1 / (2 * len(run.partition) * found.lambda_max_block.bound)
        if sizes := run.prepared.colour_sizes:
            blocks, rows = zip(*sizes, strict=True)
            record.put(colour={"colour": range(len(sizes)), "blocks": blocks, "rows": rows})
            record.variable_attrs["update", "energy_decrease"] = {"how": BY_COLOURS}
        self._times_chosen = torch.zeros(len(run.partition) if run.partition else 0, dtype=torch.int64)
        self._squared_residual = float(torch.linalg.vector_norm(run.residual_vectors.double()) ** 2)
        if self.rows:
            put_rows(record, run)
        if 0 in self.snapshots:
            self._snapshot(0)

    def on_update(self, update: Update) -> None:
        self._pending.append(update)
        if update.number in self.snapshots:
            self._snapshot(update.number)

    def on_epoch(self, epoch: Epoch) -> None:
        record = self._records[-1]
        groups = self._pending_groups(record)
        groups["epoch"] = {
            "epoch": [epoch.number],
            "work": [epoch.work],
            "seconds": [epoch.seconds],
            "residual": [epoch.residual],
            "residual_per_rhs": epoch.residual_per_rhs[None],
            "checked_residual": [epoch.checked_residual],
            "drift": [epoch.drift],
            "energy": [epoch.energy],
            "residual_rounding": [epoch.residual_rounding],
            "energy_rounding": [epoch.energy_rounding],
            "test_rmse": [epoch.measured.get("test_rmse", math.nan)],
            "prediction_error": [epoch.measured.get("prediction_error", math.nan)],
            "prediction_work": [epoch.measured.get("prediction_work", 0.0)],
        }
        if epoch.block_norms is not None:
            groups["block"] = groups.get("block", {"times_chosen": self._times_chosen}) | {
                "epoch": [epoch.number],
                "residual_norm": epoch.block_norms[None],
            }
        record.put(**groups)
        # Ctrl-C loses nothing: before the line above the updates are still pending, after it they are in the record
        if "update" in groups:
            self._squared_residual = float((self._pending[-1].squared_residual.cpu() * self._squared_rhs_norms).sum())
        if "block" in groups:
            self._times_chosen = torch.as_tensor(groups["block"]["times_chosen"])
        self._pending = []
        self.flush_if_due()

    def on_pass(self, found: Pass) -> None:
        # reported after its epoch, and written with it at the next flush
        row = {
            "pass": [found.number],
            "epoch": [found.epoch],
            "work": [found.work],
            "seconds": [found.seconds],
            "claimed_residual": [found.claimed],
            "residual": [found.residual],
            "drift": [found.drift],
            "is_exact": [found.is_exact],
            "is_adopted": [found.is_adopted],
        } | _traffic([found])
        self._records[-1].put(**{"pass": row})

    def on_stop(self, solution: Solution) -> None:
        if self.final_snapshot and self._run.update_number not in self.snapshots:
            self._snapshot(self._run.update_number)
        record = self._records[-1]
        self._recording = False
        record.attrs |= {
            "status": FINISHED,
            "stop_reason": str(solution.stop_reason),
            "stop_message": solution.stop_message,
            # JSON has no NaN
            "residual": solution.residual if math.isfinite(solution.residual) else str(solution.residual),
            "certificate": solution.certificate.kind if solution.certificate else "",
            "epochs": solution.epochs,
            "work": solution.work,
            "seconds": solution.seconds,
            "choices": json.dumps(self._run.choices),  # again: the solve may have added some
        }
        if solution.certificate is not None and math.isfinite(solution.certificate.error):
            record.attrs["certificate_error"] = solution.certificate.error
        self.flush()
        self._release()

    def on_abandon(self, error: BaseException) -> None:
        if not self._recording:
            self._release()
            return
        self._recording = False
        record = self._records[-1]
        record.attrs["stop_message"] = f"interrupted by {type(error).__name__}: {error}".rstrip(": ")
        record.put(**self._pending_groups(record))
        self.flush()
        self._release()

    def _pending_groups(self, record: Record) -> dict[str, dict[str, Any]]:
        """Return the pending updates as arrays; energies and residuals leave the device in one transfer each."""
        done = record.length(("update", "update"))
        updates = [u for u in self._pending if u.number > done]
        if not updates:
            return {}
        blocks = _blocks(updates)
        squared = torch.stack([u.squared_residual for u in updates]).cpu()
        totals = squared @ self._squared_rhs_norms
        before = torch.cat([torch.tensor([self._squared_residual], dtype=torch.float64), totals[:-1]])
        groups: dict[str, dict[str, Any]] = {
            "update": {
                "update": [u.number for u in updates],
                "block": blocks,
                "epoch_of_update": [u.epoch for u in updates],
                "work": [u.work for u in updates],
                "seconds": [self._run.clock.seconds(u.mark) for u in updates],
                "energy_decrease": torch.stack([u.energy_decrease for u in updates]).double().cpu(),
                "guaranteed_decrease": torch.where(blocks >= 0, before * self._guarantee, math.nan),
                "residual": squared.sqrt(),
            }
            | _traffic(updates)
        }
        if len(self._times_chosen):
            chosen = blocks[blocks >= 0]  # -1: all rows at once, after CG took over
            counts = torch.bincount(chosen, minlength=len(self._times_chosen))
            groups["block"] = {"times_chosen": self._times_chosen + counts}
        return groups

    def _snapshot(self, number: int) -> None:
        # R and W change in place
        values = {"residual": self._run.residual_vectors[:, 0].double().cpu().clone()[None]}
        if self.weights:
            values["weights"] = self._run.weights[:, 0].double().cpu().clone()[None]
        self._records[-1].put(snapshot={"update": [number], **values})

    def _open(self, record: Record) -> None:
        """Open the store of a new record."""
        path = None if self.path is None else _numbered(self.path, len(self._records) + 1)
        if path is not None and (self._lock is None or self._lock.path != path):
            self._lock = Lock(path)
        try:
            self._store = None if path is None else TraceStore(path, record)
        except FileExistsError:
            self._release()
            raise
        self._flushed, self._warned = self._now(), False
        self._flush_seconds = None

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
        self._lock = None


def _blocks(updates: Sequence[Update]) -> torch.Tensor:
    """The block of each update, on the host; those that only the device knows in one transfer."""
    blocks = torch.tensor([-1 if isinstance(u.chosen, torch.Tensor) else u.chosen for u in updates])
    on_device = {k: u.chosen for k, u in enumerate(updates) if isinstance(u.chosen, torch.Tensor)}
    if on_device:
        blocks[list(on_device)] = torch.stack(list(on_device.values())).cpu()
    return blocks


def _traffic(reports: Sequence[Update | Pass]) -> dict[str, list[int]]:
    """Return messages between ranks, and their bytes, after each report; empty for a single process."""
    found = [report.traffic for report in reports if report.traffic is not None]
    return {"messages": [each[0] for each in found], "message_bytes": [each[1] for each in found]} if found else {}


def _numbered(path: Place, number: int) -> Place:
    return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
