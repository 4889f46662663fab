"""The schema of a trace: all variables with dimensions, meaning and unit, in one table.

A trace is an xarray ``DataTree``. Variables whose first dimension is in ``GROWING`` are appended while the
solve runs; the others are written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# increases when older traces can no longer be read; a new optional group does not change it
SCHEMA_VERSION: Final = 5

#: dimensions along which a group grows while a solve runs
GROWING: Final = ("update", "epoch", "pass", "step")

#: status of a trace for which no stop reason was reached: the process was killed, interrupted, or still runs
INTERRUPTED: Final = "interrupted"
FINISHED: Final = "finished"
#: stop reason of a training that ended before its last step, because no step gained anything
SETTLED: Final = "settled"
#: stop reason of a training that could not take a step; its status is `interrupted`
FAILED: Final = "failed"

#: root attribute `kind` of the trace of a training; that of a solve has none
TRAINING: Final = "training"
#: root attribute that identifies a trace on disk; copies keep it
TRACE_ID: Final = "trace_id"


@dataclass(frozen=True)
class Variable:
    """Describe a variable of a trace: dimensions, the two attributes every variable carries, and dtype.

    Args:
        is_optional: a complete trace may lack it, such as that of a solve by GPyTorch or of a single process.
    """

    dims: tuple[str, ...]
    long_name: str
    units: str
    dtype: str = "float64"
    is_optional: bool = False


#: where ranks share a solve
TRAFFIC_OF: Final[dict[str, dict[str, Variable]]] = {
    group: {
        "messages": Variable((group,), f"messages between ranks after the {group}", "1", "int64", is_optional=True),
        "message_bytes": Variable(
            (group,), f"payload of the messages after the {group}", "B", "int64", is_optional=True
        ),
    }
    for group in ("update", "pass")
}

UPDATE: Final[dict[str, Variable]] = {
    "update": Variable(("update",), "update", "1", "int64"),
    "block": Variable(("update",), "block, or colour of blocks, projected onto (-1: all rows at once)", "1", "int64"),
    "epoch_of_update": Variable(("update",), "epoch the update belongs to", "epoch", "int64"),
    "work": Variable(("update",), "work after the update, set-up included", "n² kernel entries"),
    "seconds": Variable(("update",), "time since the start of the solve", "s"),
    "energy_decrease": Variable(("update",), "decrease of h(W) by the update", "energy"),
    "guaranteed_decrease": Variable(
        ("update",), "decrease of h(W) that Theorem 1 guarantees gauss-southwell", "energy"
    ),
    "residual": Variable(("update", "rhs"), "relative residual ‖r‖/‖b‖ after the update (recursive)", "1"),
    **TRAFFIC_OF["update"],
}

EPOCH: Final[dict[str, Variable]] = {
    "epoch": Variable(("epoch",), "epoch, or iteration of a Krylov method", "epoch", "int64"),
    "work": Variable(("epoch",), "work so far, set-up included", "n² kernel entries"),
    "seconds": Variable(("epoch",), "time since the start of the solve", "s"),
    "residual": Variable(("epoch",), "relative residual, mean over right-hand sides (see residual_rounding)", "1"),
    "residual_per_rhs": Variable(("epoch", "rhs"), "relative residual ‖r‖/‖b‖", "1"),
    "checked_residual": Variable(("epoch",), "relative residual recomputed from B − KW, mean (NaN: not checked)", "1"),
    "drift": Variable(("epoch",), "‖R − (B − KW)‖_F / ‖B‖_F before the recomputation (NaN: not checked)", "1"),
    "energy": Variable(
        ("epoch",), "h(W) = ½tr(WᵀKW) − tr(BᵀW); by the recursion's decreases between measurements", "energy"
    ),
    "residual_rounding": Variable(
        ("epoch",),
        "what float64 may have rounded ‖B − KW‖_F by, ÷ ‖B‖_F (NaN: not measured, the residual is the recursion's)",
        "1",
        is_optional=True,
    ),
    "energy_rounding": Variable(
        ("epoch",), "what float64 may have rounded h(W) by (NaN: not measured)", "energy", is_optional=True
    ),
    "test_rmse": Variable(("epoch",), "test RMSE (NaN: not asked for)", "target as solved"),
    "prediction_error": Variable(
        ("epoch",),
        "error of means that 95% of the test points do not exceed (NaN: not asked for)",
        "posterior sd",
        is_optional=True,
    ),
    "prediction_work": Variable(
        ("epoch",), "work of the test predictions so far, not part of `work`", "n² kernel entries"
    ),
}

#: evaluations of B − KW during the solve: one row per pass, written after its epoch
PASS: Final[dict[str, Variable]] = {
    "pass": Variable(("pass",), "pass, an evaluation of B − KW on all rows", "1", "int64"),
    "epoch": Variable(("pass",), "epoch at whose end the pass was made", "epoch", "int64"),
    "work": Variable(("pass",), "work after the pass, set-up included", "n² kernel entries"),
    "seconds": Variable(("pass",), "time since the start of the solve, after the pass", "s"),
    "claimed_residual": Variable(
        ("pass",), "relative residual of the recursion before the pass, mean (NaN: no recursion)", "1"
    ),
    "residual": Variable(("pass",), "relative residual of B − KW, mean over right-hand sides", "1"),
    "drift": Variable(("pass",), "‖R − (B − KW)‖_F / ‖B‖_F before the pass (NaN: no recursion)", "1"),
    "is_exact": Variable(("pass",), "1: may claim convergence; 0: in the recursion's dtype", "1", "int64"),
    "is_adopted": Variable(("pass",), "1: the recursion continues from B − KW; 0: from its own residual", "1", "int64"),
    **TRAFFIC_OF["pass"],
}

BLOCK: Final[dict[str, Variable]] = {
    "block": Variable(("block",), "block", "1", "int64"),
    "owned_size": Variable(("block",), "rows the block owns", "rows", "int64"),
    "solved_size": Variable(("block",), "rows the block solves on", "rows", "int64"),
    "lambda_max": Variable(("block",), "λmax(K[I,I]) over the solved rows", "1"),
    "jitter": Variable(("block",), "added to the diagonal so that the factor exists", "1"),
    "times_chosen": Variable(("block",), "how often the block was projected onto", "1", "int64"),
}

#: also in the group ``block``, one row per epoch
BLOCK_HISTORY: Final[dict[str, Variable]] = {
    "epoch": Variable(("epoch",), "epoch", "epoch", "int64"),
    "residual_norm": Variable(("epoch", "block"), "‖R_I‖_F over the owned rows after the epoch (recursive)", "1"),
}

#: of coloured projections, whose updates are colours of far-apart blocks
COLOUR: Final[dict[str, Variable]] = {
    "colour": Variable(("colour",), "colour of blocks that are projected onto at once", "1", "int64"),
    "blocks": Variable(("colour",), "blocks of the colour", "1", "int64"),
    "rows": Variable(("colour",), "rows the colour solves on", "rows", "int64"),
}

SPECTRUM: Final[dict[str, Variable]] = {
    "lambda_max": Variable((), "largest eigenvalue of K", "1"),
    "lambda_min": Variable((), "smallest eigenvalue of K", "1"),
    "lambda_max_block": Variable((), "largest eigenvalue of any K[I,I] (λ′max)", "1"),
    "kappa": Variable((), "condition number κ = λmax/λmin", "1"),
    "kappa_prime": Variable((), "κ′ = λ′max/λmin (Theorem 1)", "1"),
}

#: on request, for small n; `preconditioned` where the solver has a preconditioner P
EIGENVALUES: Final[dict[str, Variable]] = {
    "eigenvalue": Variable(("index",), "eigenvalues of K, largest first", "1"),
    "preconditioned": Variable(("index",), "eigenvalues of P⁻¹K, largest first", "1"),
}

#: on request, for pictures that need the points
ROWS: Final[dict[str, Variable]] = {
    "coordinates": Variable(("row", "input"), "inputs x, as solved", "input unit"),
    "owner": Variable(("row",), "block that owns the row", "1", "int64"),
    "membership": Variable(("pair", "row_and_block"), "rows that a block solves on", "1", "int64"),
    "target": Variable(("row",), "first right-hand side: targets minus their mean", "target unit"),
}

SNAPSHOT: Final[dict[str, Variable]] = {
    "update": Variable(("update",), "update after which the residual was taken (0: before any)", "1", "int64"),
    "residual": Variable(("update", "row"), "residual of the first right-hand side (recursive)", "target unit"),
    "weights": Variable(("update", "row"), "weights of the first right-hand side (where asked)", "1/target unit"),
}

#: of the experiment `lanczos-rank`, which compares test variances
LANCZOS: Final[dict[str, Variable]] = {
    "rank": Variable(("rank",), "rank of the Lanczos variances", "1", "int64"),
    "nll": Variable(("rank",), "test NLL with variances of this rank", "nats a row"),
    "nll_by_solves": Variable((), "test NLL with variances by solves", "nats a row"),
}

#: the only group of the trace of a training: one row per step, with the hyperparameters of its solve; a step of L-BFGS
#: is an iteration, and its solve the one it starts from
STEP: Final[dict[str, Variable]] = {
    "step": Variable(("step",), "step of the optimiser", "step", "int64"),
    "noise": Variable(("step",), "noise variance σ² of the step's solve", "target unit²"),
    "outputscale": Variable(("step",), "outputscale of the step's solve", "target unit²", is_optional=True),
    "mean": Variable(("step",), "prior mean of the step's solve", "target unit"),
    "lengthscale": Variable(("step", "input"), "lengthscales of the step's solve", "input unit", is_optional=True),
    "kernel_number": Variable(
        ("step", "number"), "hyperparameters of the kernel of the step's solve, by `names`", "1", is_optional=True
    ),
    "gradient_norm": Variable(("step",), "norm of the gradient of ℓ/n in the unconstrained parameters", "nats a row"),
    "gain": Variable(("step",), "decrease of ℓ/n by the step, of an estimated gradient to first order", "nats a row"),
    "negative_log_likelihood": Variable(
        ("step",), "−log p(y) ÷ n of the step's solve (NaN: not evaluated)", "nats a row"
    ),
    "epochs": Variable(
        ("step",),
        "epochs, or iterations of a Krylov method, of the step's solve; of L-BFGS its solves",
        "epoch",
        "int64",
    ),
    "work": Variable(("step",), "work of the step: probes, solves and gradients", "n² kernel entries"),
    "seconds": Variable(("step",), "time of the step", "s"),
    "residual": Variable(("step",), "relative residual at the end of the step's solve, mean", "1"),
    "converged": Variable(("step",), "1 where the step's solve converged, else 0", "1", "int64"),
    "kappa": Variable(("step",), "condition number κ, an estimate for large n (NaN: not asked for)", "1"),
    "kappa_prime": Variable(("step",), "κ′ = λ′max/λmin, an estimate (NaN: no blocks, or not asked for)", "1"),
}

GROUPS: Final[dict[str, dict[str, Variable]]] = {
    "update": UPDATE,
    "epoch": EPOCH,
    "pass": PASS,
    "block": BLOCK | BLOCK_HISTORY,
    "colour": COLOUR,
    "spectrum": SPECTRUM,
    "eigenvalues": EIGENVALUES,
    "rows": ROWS,
    "snapshot": SNAPSHOT,
    "lanczos": LANCZOS,
    "step": STEP,
}
