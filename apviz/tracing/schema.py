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
    """Describe a variable of a trace: dimensions, dtype, and the two attributes every variable carries.

    Args:
        is_optional: a complete trace may lack it, such as that of a solve by GPyTorch or of a single process.
    """

    dims: tuple[str, ...]
    dtype: str
    long_name: str
    units: str
    is_optional: bool = False


#: where ranks share a solve
TRAFFIC_OF: Final[dict[str, dict[str, Variable]]] = {
    group: {
        "messages": Variable((group,), "int64", f"messages between ranks after the {group}", "1", is_optional=True),
        "message_bytes": Variable(
            (group,), "int64", f"payload of the messages after the {group}", "B", is_optional=True
        ),
    }
    for group in ("update", "pass")
}

UPDATE: Final[dict[str, Variable]] = {
    "update": Variable(("update",), "int64", "update", "1"),
    "block": Variable(("update",), "int64", "block, or colour of blocks, projected onto (-1: all rows at once)", "1"),
    "epoch_of_update": Variable(("update",), "int64", "epoch the update belongs to", "epoch"),
    "work": Variable(("update",), "float64", "work after the update, set-up included", "n² kernel entries"),
    "seconds": Variable(("update",), "float64", "time since the start of the solve", "s"),
    "energy_decrease": Variable(("update",), "float64", "decrease of h(W) by the update", "energy"),
    "guaranteed_decrease": Variable(
        ("update",), "float64", "decrease of h(W) that Theorem 1 guarantees gauss-southwell", "energy"
    ),
    "residual": Variable(("update", "rhs"), "float64", "relative residual ‖r‖/‖b‖ after the update (recursive)", "1"),
    **TRAFFIC_OF["update"],
}

EPOCH: Final[dict[str, Variable]] = {
    "epoch": Variable(("epoch",), "int64", "epoch, or iteration of a Krylov method", "epoch"),
    "work": Variable(("epoch",), "float64", "work so far, set-up included", "n² kernel entries"),
    "seconds": Variable(("epoch",), "float64", "time since the start of the solve", "s"),
    "residual": Variable(
        ("epoch",), "float64", "relative residual, mean over right-hand sides (see residual_rounding)", "1"
    ),
    "residual_per_rhs": Variable(("epoch", "rhs"), "float64", "relative residual ‖r‖/‖b‖", "1"),
    "checked_residual": Variable(
        ("epoch",), "float64", "relative residual recomputed from B − KW, mean (NaN: not checked)", "1"
    ),
    "drift": Variable(
        ("epoch",), "float64", "‖R − (B − KW)‖_F / ‖B‖_F before the recomputation (NaN: not checked)", "1"
    ),
    "energy": Variable(
        ("epoch",), "float64", "h(W) = ½tr(WᵀKW) − tr(BᵀW); by the recursion's decreases between measurements", "energy"
    ),
    "residual_rounding": Variable(
        ("epoch",),
        "float64",
        "what float64 may have rounded ‖B − KW‖_F by, ÷ ‖B‖_F (NaN: not measured, the residual is the recursion's)",
        "1",
        is_optional=True,
    ),
    "energy_rounding": Variable(
        ("epoch",), "float64", "what float64 may have rounded h(W) by (NaN: not measured)", "energy", is_optional=True
    ),
    "test_rmse": Variable(("epoch",), "float64", "test RMSE (NaN: not asked for)", "target as solved"),
    "prediction_error": Variable(
        ("epoch",),
        "float64",
        "error of means that 95% of the test points do not exceed (NaN: not asked for)",
        "posterior sd",
        is_optional=True,
    ),
    "prediction_work": Variable(
        ("epoch",), "float64", "work of the test predictions so far, not part of `work`", "n² kernel entries"
    ),
}

#: evaluations of B − KW during the solve: one row per pass, written after its epoch
PASS: Final[dict[str, Variable]] = {
    "pass": Variable(("pass",), "int64", "pass, an evaluation of B − KW on all rows", "1"),
    "epoch": Variable(("pass",), "int64", "epoch at whose end the pass was made", "epoch"),
    "work": Variable(("pass",), "float64", "work after the pass, set-up included", "n² kernel entries"),
    "seconds": Variable(("pass",), "float64", "time since the start of the solve, after the pass", "s"),
    "claimed_residual": Variable(
        ("pass",), "float64", "relative residual of the recursion before the pass, mean (NaN: no recursion)", "1"
    ),
    "residual": Variable(("pass",), "float64", "relative residual of B − KW, mean over right-hand sides", "1"),
    "drift": Variable(("pass",), "float64", "‖R − (B − KW)‖_F / ‖B‖_F before the pass (NaN: no recursion)", "1"),
    "is_exact": Variable(("pass",), "int64", "1: may claim convergence; 0: in the recursion's dtype", "1"),
    "is_adopted": Variable(("pass",), "int64", "1: the recursion continues from B − KW; 0: from its own residual", "1"),
    **TRAFFIC_OF["pass"],
}

BLOCK: Final[dict[str, Variable]] = {
    "block": Variable(("block",), "int64", "block", "1"),
    "owned_size": Variable(("block",), "int64", "rows the block owns", "rows"),
    "solved_size": Variable(("block",), "int64", "rows the block solves on", "rows"),
    "lambda_max": Variable(("block",), "float64", "λmax(K[I,I]) over the solved rows", "1"),
    "jitter": Variable(("block",), "float64", "added to the diagonal so that the factor exists", "1"),
    "times_chosen": Variable(("block",), "int64", "how often the block was projected onto", "1"),
}

#: also in the group ``block``, one row per epoch
BLOCK_HISTORY: Final[dict[str, Variable]] = {
    "epoch": Variable(("epoch",), "int64", "epoch", "epoch"),
    "residual_norm": Variable(
        ("epoch", "block"), "float64", "‖R_I‖_F over the owned rows after the epoch (recursive)", "1"
    ),
}

#: of coloured projections, whose updates are colours of far-apart blocks
COLOUR: Final[dict[str, Variable]] = {
    "colour": Variable(("colour",), "int64", "colour of blocks that are projected onto at once", "1"),
    "blocks": Variable(("colour",), "int64", "blocks of the colour", "1"),
    "rows": Variable(("colour",), "int64", "rows the colour solves on", "rows"),
}

SPECTRUM: Final[dict[str, Variable]] = {
    "lambda_max": Variable((), "float64", "largest eigenvalue of K", "1"),
    "lambda_min": Variable((), "float64", "smallest eigenvalue of K", "1"),
    "lambda_max_block": Variable((), "float64", "largest eigenvalue of any K[I,I] (λ′max)", "1"),
    "kappa": Variable((), "float64", "condition number κ = λmax/λmin", "1"),
    "kappa_prime": Variable((), "float64", "κ′ = λ′max/λmin (Theorem 1)", "1"),
}

#: on request, for small n; `preconditioned` where the solver has a preconditioner P
EIGENVALUES: Final[dict[str, Variable]] = {
    "eigenvalue": Variable(("index",), "float64", "eigenvalues of K, largest first", "1"),
    "preconditioned": Variable(("index",), "float64", "eigenvalues of P⁻¹K, largest first", "1"),
}

#: on request, for pictures that need the points
ROWS: Final[dict[str, Variable]] = {
    "coordinates": Variable(("row", "input"), "float64", "inputs x, as solved", "input unit"),
    "owner": Variable(("row",), "int64", "block that owns the row", "1"),
    "membership": Variable(("pair", "row_and_block"), "int64", "rows that a block solves on", "1"),
    "target": Variable(("row",), "float64", "first right-hand side: targets minus their mean", "target unit"),
}

SNAPSHOT: Final[dict[str, Variable]] = {
    "update": Variable(("update",), "int64", "update after which the residual was taken (0: before any)", "1"),
    "residual": Variable(
        ("update", "row"), "float64", "residual of the first right-hand side (recursive)", "target unit"
    ),
    "weights": Variable(
        ("update", "row"), "float64", "weights of the first right-hand side (where asked)", "1/target unit"
    ),
}

#: of the experiment `lanczos-rank`, which compares test variances
LANCZOS: Final[dict[str, Variable]] = {
    "rank": Variable(("rank",), "int64", "rank of the Lanczos variances", "1"),
    "nll": Variable(("rank",), "float64", "test NLL with variances of this rank", "nats a row"),
    "nll_by_solves": Variable((), "float64", "test NLL with variances by solves", "nats a row"),
}

#: the only group of the trace of a training: one row per step, with the hyperparameters of its solve; a step of L-BFGS
#: is an iteration, and its solve the one it starts from
STEP: Final[dict[str, Variable]] = {
    "step": Variable(("step",), "int64", "step of the optimiser", "step"),
    "noise": Variable(("step",), "float64", "noise variance σ² of the step's solve", "target unit²"),
    "outputscale": Variable(("step",), "float64", "outputscale of the step's solve", "target unit²", is_optional=True),
    "mean": Variable(("step",), "float64", "prior mean of the step's solve", "target unit"),
    "lengthscale": Variable(
        ("step", "input"), "float64", "lengthscales of the step's solve", "input unit", is_optional=True
    ),
    "kernel_number": Variable(
        ("step", "number"),
        "float64",
        "hyperparameters of the kernel of the step's solve, by `names`",
        "1",
        is_optional=True,
    ),
    "gradient_norm": Variable(
        ("step",), "float64", "norm of the gradient of ℓ/n in the unconstrained parameters", "nats a row"
    ),
    "gain": Variable(
        ("step",), "float64", "decrease of ℓ/n by the step, of an estimated gradient to first order", "nats a row"
    ),
    "negative_log_likelihood": Variable(
        ("step",), "float64", "−log p(y) ÷ n of the step's solve (NaN: not evaluated)", "nats a row"
    ),
    "epochs": Variable(
        ("step",),
        "int64",
        "epochs, or iterations of a Krylov method, of the step's solve; of L-BFGS its solves",
        "epoch",
    ),
    "work": Variable(("step",), "float64", "work of the step: probes, solves and gradients", "n² kernel entries"),
    "seconds": Variable(("step",), "float64", "time of the step", "s"),
    "residual": Variable(("step",), "float64", "relative residual at the end of the step's solve, mean", "1"),
    "converged": Variable(("step",), "int64", "1 where the step's solve converged, else 0", "1"),
    "kappa": Variable(("step",), "float64", "condition number κ, an estimate for large n (NaN: not asked for)", "1"),
    "kappa_prime": Variable(
        ("step",), "float64", "κ′ = λ′max/λmin, an estimate (NaN: no blocks, or not asked for)", "1"
    ),
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
