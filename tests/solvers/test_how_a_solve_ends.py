"""Every stop reason on a real system, claims of convergence, work, and calls of hooks."""

import dataclasses
import sys
import threading

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import apviz
from apviz import StopReason
from apviz.partitions import KDTree, partitioner_named
from apviz.solvers import Subspace
from tests.device import DEVICE
from tests.solvers.oracle import Watch, problem

NEVER = 1e-300
SOLVERS = (
    apviz.AlternatingProjection(block_size=9, tol=1e-9),
    apviz.AlternatingProjection(block_size=9, rule="cyclic", partition=KDTree(overlap=0.5), tol=1e-9),
    apviz.AlternatingProjection(block_size=9, rule="random", partition="shuffled", tol=1e-9),
    apviz.ConjugateGradient(tol=1e-9),
    apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=5), tol=1e-9),
    apviz.Cholesky(tol=1e-9),
)
EVERY_SOLVER = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.method.name)


def easy32():
    return problem(n=60, noise=1.0, lengthscale=0.3, dtype=torch.float32)


def indefinite32():
    """Return a K that float32 rounds to an indefinite matrix: smooth, dense points, noise below rounding."""
    x = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    return problem(n=200, x=x, kernel="RBF", noise=1e-7, rhs=1, dtype=torch.float32)


# --- stop reasons --------------------------------------------------------------------------------------------------


@EVERY_SOLVER
def test_at_a_tight_tolerance_all_solvers_return_the_same_fields_and_weights(solver):
    p = problem(n=50, rhs=3, noise=1.0, lengthscale=0.3)
    solution = apviz.solve(p.system, solver)
    assert solution.stop_reason is StopReason.CONVERGED and solution.converged
    np.testing.assert_allclose(solution.weights, p.W, atol=1e-7)
    assert solution.residual == pytest.approx(float(solution.residual_per_rhs.mean()))
    assert solution.residual_per_rhs.shape == (3,) and solution.residual_per_rhs.dtype == torch.float64
    assert 0 <= solution.setup_work < solution.work and 0 < solution.setup_seconds <= solution.seconds
    assert solution.energy == pytest.approx(p.h(p.W), rel=1e-8)
    assert [f.name for f in dataclasses.fields(solution)] == [f.name for f in dataclasses.fields(apviz.Solution)]


@settings(max_examples=40, deadline=None)
@given(
    solver=st.sampled_from(SOLVERS), tol=st.sampled_from((0.3, 1e-2, 1e-4, 1e-6, 1e-8)), seed=st.integers(0, 99),
    noise=st.sampled_from((1e-3, 0.05, 1.0)), dtype=st.sampled_from((torch.float32, torch.float64)),
)  # fmt: skip
@example(
    apviz.AlternatingProjection(block_size=9), 1e-8, 10, 1.0, torch.float32
)  # at the cap, below the tolerance, not the aim
def test_a_claim_of_convergence_is_backed_by_the_dense_residual(solver, tol, seed, noise, dtype):
    p = problem(n=40, seed=seed, noise=noise, dtype=dtype)
    caps = {"max_epochs": 60}
    known = {f.name for f in dataclasses.fields(solver)}
    solver = dataclasses.replace(solver, tol=tol, **{k: v for k, v in caps.items() if k in known})
    solution = apviz.solve(p.system, solver)
    if solution.converged:
        assert solution.residual < tol
        true = p.residual(solution.weights)
        # B is rounded to the system's dtype; if it may matter, the claim includes a bound on float64 rounding
        rounding = max(64 * torch.finfo(dtype).eps, 1e-11)  # the oracle is in float64 too
        assert true - rounding <= solution.residual <= true + 1e-3 * tol + rounding
    else:
        assert solution.residual >= tol
        assert "converged" not in solution.stop_message.replace("not converged", "")


def test_the_stop_reason_is_max_epochs_if_the_cap_comes_first():
    for solver in (
        apviz.AlternatingProjection(block_size=5, tol=1e-12, max_epochs=2),
        apviz.ConjugateGradient(tol=1e-12, max_epochs=2),
    ):
        solution = apviz.solve(problem().system, solver)
        assert solution.stop_reason is StopReason.MAX_EPOCHS and solution.epochs == 2
        assert "not converged" in solution.stop_message and "raise it" in solution.stop_reason.advice


@pytest.mark.parametrize(
    "solver",
    [
        apviz.AlternatingProjection(block_size=10, tol=1e-12),
        apviz.AlternatingProjection(block_size=10, rule="cyclic", tol=1e-12),
        apviz.ConjugateGradient(tol=1e-12),
        apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=10), tol=1e-12),
        apviz.Cholesky(tol=1e-12),
    ],
    ids=lambda s: s.method.name,
)
def test_float32_inside_reaches_any_tolerance_that_float64_resolves(solver):
    p = easy32()
    solution = apviz.solve(p.system, solver)
    assert solution.converged and solution.weights.dtype == torch.float64
    assert p.residual(solution.weights) < 1e-12


@pytest.mark.parametrize(
    "solver",
    [apviz.AlternatingProjection(block_size=10), apviz.ConjugateGradient(), apviz.Cholesky()],
    ids=lambda s: s.name,
)
def test_a_tolerance_below_float64s_floor_stagnates_at_that_floor(solver):
    p = easy32()
    solution = apviz.solve(p.system, dataclasses.replace(solver, tol=1e-17))
    assert solution.stop_reason is StopReason.STAGNATED and not solution.converged
    assert p.residual(solution.weights) < 1e-13
    assert "converged" not in solution.stop_message


def test_an_unconverged_solve_names_its_method_residual_tolerance_and_epochs():
    p = problem(n=60, noise=1e-3, lengthscale=1.0)
    solver = apviz.AlternatingProjection(block_size=10, tol=1e-10)
    with pytest.warns(apviz.NotConverged) as told:
        solution = apviz.solve(p.system, dataclasses.replace(solver, max_epochs=2))
    assert str(told[0].message) == (
        f"{solver.method.name} did not converge. After 2 epochs or iterations the residual is "
        f"{p.residual(solution.weights):.2g}, the tolerance 1e-10. It {solution.stop_message}"
    )
    with pytest.raises(apviz.NotConverged) as raised:
        apviz.solve(p.system, dataclasses.replace(solver, max_epochs=2), throw=True)
    assert str(raised.value) == str(told[0].message) and torch.equal(raised.value.solution.weights, solution.weights)


@pytest.mark.parametrize(
    ("changed", "is_told"),
    [
        ({}, True),
        ({"n": 59}, False),
        ({"dtype": torch.float32}, False),
        ({"noise": 1e-4}, False),
        ({"tol": 1e-4}, False),
    ],
    ids=str,
)
def test_float64_is_reported_as_unnecessary_for_many_rows_at_a_large_tolerance(changed, is_told, monkeypatch, caplog):
    monkeypatch.setattr(sys.modules["apviz.solvers.solve"], "LARGE_ROWS", 60)
    settings = {"n": 60, "noise": 0.1, "lengthscale": 0.3, "dtype": torch.float64, "tol": 1e-2} | changed
    tol = settings.pop("tol")
    with caplog.at_level("INFO", logger="apviz"):
        apviz.solve(problem(**settings).system, apviz.Cholesky(tol=tol))
    words = "solving in float64, like the data; dtype=torch.float32 is enough for a tolerance of 0.01"
    assert (words in caplog.messages) == is_told == any("float64" in each for each in caplog.messages)


def test_a_solve_that_has_converged_and_waits_for_its_minimum_is_not_called_stagnated():
    for solver in (
        apviz.AlternatingProjection(block_size=10, min_epochs=300, max_epochs=400),
        apviz.ConjugateGradient(min_epochs=300),
    ):
        solution = apviz.solve(easy32().system, solver)
        assert solution.converged and solution.epochs == 300


@pytest.mark.filterwarnings("ignore:.*needed jitter")
@pytest.mark.parametrize("rule", ["gauss-southwell", "cyclic"])
def test_a_matrix_that_float32_makes_indefinite_diverges(rule):
    p = indefinite32()
    assert np.linalg.eigvalsh(p.system.operator.matrix.double().numpy())[0] < 0 < np.linalg.eigvalsh(p.K)[0]
    solution = apviz.solve(p.system, apviz.AlternatingProjection(block_size=10, rule=rule, tol=1e-3, max_epochs=500))
    assert solution.stop_reason is StopReason.DIVERGED and solution.residual > 1e4
    assert "use precision='float64' or more noise" in solution.stop_message
    advised = apviz.AlternatingProjection(block_size=10, rule=rule, tol=1e-3, max_epochs=50, precision="float64")
    assert apviz.solve(p.system, advised).stop_reason is not StopReason.DIVERGED


@pytest.mark.filterwarnings("ignore:.*needed jitter")
def test_a_diverged_solve_is_advised_to_use_more_digits_only_if_there_are_any():
    rng = np.random.default_rng(0)
    x, b = rng.uniform(-1, 1, (200, 1)), rng.standard_normal((200, 1))

    def solved(solver, noise, dtype):
        system = apviz.KernelSystem(x, b, apviz.RBF(lengthscale=0.5), noise=noise, dtype=dtype, device=DEVICE)
        return apviz.solve(system, solver)

    gradients = apviz.ConjugateGradient(tol=1e-3)
    blocks = apviz.AlternatingProjection(block_size=10, tol=1e-3, max_epochs=500)
    for dtype, noise, solver, advice in (
        (torch.float32, 1e-7, gradients, "use a system in float64 or more noise"),
        (torch.float64, 1e-7, dataclasses.replace(blocks, precision="float32"), "use precision='float64' or more"),
        (torch.float64, 1e-16, blocks, "outweighs the noise; use more noise"),
    ):
        solution = solved(solver, noise, dtype)
        assert solution.stop_reason is StopReason.DIVERGED and advice in solution.stop_message
    assert solved(gradients, 1e-7, torch.float64).converged


def doubled(d, noise, *, smooth=False, n=600, seed=1):
    """Return a float32 system in which every point appears twice, both times in one block of 100."""
    rng = np.random.default_rng(seed)
    x = np.repeat(rng.uniform(size=(n // 2, d)), 2, axis=0)
    b = rng.standard_normal(n) if not smooth else np.sin(5 * x[:, 0]) + 0.1 * rng.standard_normal(n)
    kernel = apviz.Matern52(lengthscale=0.5)
    return apviz.KernelSystem(x, b, kernel, noise=noise, dtype=torch.float32, device=DEVICE, operator="dense")


@pytest.mark.filterwarnings("ignore:.*needed jitter")
@pytest.mark.parametrize("d", [3, 5])
def test_if_only_jitter_separates_duplicate_points_stagnation_is_found_within_a_few_passes(d):
    solver, epochs = apviz.AlternatingProjection(block_size=100), []
    for seed in range(1, 4):
        system = doubled(d, 1e-12, seed=seed)
        assert float(solver.prepare(system.operator).factors.jitter.max()) > system.noise
        solution = apviz.solve(system, solver)
        assert solution.stop_reason is StopReason.STAGNATED
        assert "jitter" in solution.stop_message and "use precision='float64'" in solution.stop_message
        epochs.append(solution.epochs)
    # the residual fluctuates there, and with another rounding it may seem to improve for some more passes
    assert sorted(epochs)[1] <= 8 * solver.check_every and max(epochs) < solver.max_epochs


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*needed jitter")
def test_a_slow_solve_with_jitter_continues_while_it_gains_and_converges():
    # rounding decides whether such a solve diverges: of seeds 1 to 6, the first does with sums in one of two orders
    system = doubled(4, 1e-7, smooth=True, seed=3)
    solution = apviz.solve(system, apviz.AlternatingProjection(block_size=100, max_epochs=3000))
    assert solution.converged and solution.epochs > 500


@pytest.mark.filterwarnings("ignore:.*jitter")
def test_a_direct_solve_that_misses_its_tolerance_has_not_converged():
    solution = apviz.solve(indefinite32().system, apviz.Cholesky(tol=1e-3))
    assert solution.stop_reason is StopReason.STAGNATED
    assert "converged" not in solution.stop_message


class StopAt(apviz.Hook):
    def __init__(self, number):
        self.number = number

    def on_start(self, run):
        self.run = run

    def on_update(self, update):
        if update.number == self.number:
            self.run.request_stop("enough")


@pytest.mark.parametrize("number", [1, 4, 6, 7, 12])
def test_a_hook_stops_the_solve_after_the_update_of_its_request(number):
    p, seen = problem(), Watch()
    solution = apviz.solve(p.system, apviz.AlternatingProjection(block_size=5, tol=NEVER), hooks=[StopAt(number), seen])
    assert solution.stop_reason is StopReason.STOPPED and solution.stop_message == "stopped: enough"
    assert len(seen.updates) == number and solution.epochs == -(-number // 6)
    np.testing.assert_array_equal(solution.weights, seen.W[-1])
    assert solution.residual == pytest.approx(p.residual(solution.weights), rel=1e-8)


@EVERY_SOLVER
def test_a_stop_at_the_first_update_ends_every_solver_after_one_update(solver):
    seen = Watch()
    solution = apviz.solve(problem().system, solver, hooks=[StopAt(1), seen])
    assert len(seen.updates) == 1
    # the direct solve has finished by then, and reports its own stop reason
    assert solution.stop_reason is (StopReason.CONVERGED if solver.name == "Cholesky" else StopReason.STOPPED)


def test_a_work_limit_stops_after_the_update_that_passes_it():
    solution = apviz.solve(
        problem().system, apviz.AlternatingProjection(block_size=5, tol=NEVER), [apviz.StopHook(max_work=1.5)]
    )
    assert solution.stop_reason is StopReason.STOPPED and "work limit of 1.5" in solution.stop_message
    assert 1.5 < solution.work <= 1.5 + 1 / 6 + 1e-12


def test_a_time_limit_stops():
    solver = apviz.AlternatingProjection(block_size=1, rule="cyclic", tol=NEVER, max_epochs=10**7, check_every=10**7)
    solution = apviz.solve(problem().system, solver, [apviz.StopHook(max_seconds=0.05)])
    assert solution.stop_reason is StopReason.STOPPED and "time limit of 0.05 s" in solution.stop_message
    assert solution.seconds > 0.05


def test_a_condition_on_the_epoch_stops_the_solve_with_its_message():
    hook = apviz.StopHook(when=lambda epoch: "far enough" if epoch.number == 3 else None)
    solution = apviz.solve(problem().system, apviz.AlternatingProjection(block_size=5, tol=NEVER), [hook])
    assert (solution.stop_reason, solution.epochs, solution.stop_message) == (
        StopReason.STOPPED,
        3,
        "stopped: far enough",
    )


def test_another_thread_stops_the_solve():
    hook, going = apviz.StopHook(), threading.Event()

    class Say(apviz.Hook):
        def on_epoch(self, epoch):
            going.set()

    threading.Thread(target=lambda: going.wait() and hook.request("pressed stop"), daemon=True).start()
    solver = apviz.AlternatingProjection(block_size=1, rule="cyclic", tol=NEVER, max_epochs=10**7, check_every=10**7)
    solution = apviz.solve(problem().system, solver, [hook, Say()])
    assert solution.stop_reason is StopReason.STOPPED and solution.stop_message == "stopped: pressed stop"


def test_a_stop_hook_can_be_used_again_after_a_stop():
    hook = apviz.StopHook()
    hook.request("once")
    first = apviz.solve(problem().system, apviz.AlternatingProjection(block_size=5), [hook])
    second = apviz.solve(problem().system, apviz.AlternatingProjection(block_size=5), [hook])
    assert first.stop_reason is StopReason.STOPPED and second.converged


# --- initial weights -----------------------------------------------------------------------------------------------


@EVERY_SOLVER
def test_starting_from_the_solution_converges_at_once(solver):
    p = problem()
    start = torch.tensor(p.W)
    kept = start.clone()
    solution = apviz.solve(p.system, solver, initial_weights=start)
    assert solution.converged and solution.epochs == 1 and torch.equal(start, kept)
    np.testing.assert_allclose(solution.weights, p.W, atol=1e-8)


@pytest.mark.parametrize("shape", [(29, 2), (30, 3), (30,), (2, 30)])
def test_initial_weights_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"initial_weights must have the shape of b, \(30, 2\), got"):
        apviz.solve(problem().system, apviz.ConjugateGradient(), initial_weights=torch.zeros(shape))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_initial_weights_that_are_not_finite_are_refused(value):
    start = torch.zeros(30, 2)
    start[3, 1] = value
    with pytest.raises(ValueError, match="initial_weights has NaN or infinite values; start from None"):
        apviz.solve(problem().system, apviz.ConjugateGradient(), initial_weights=start)


# --- work ----------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 40), b=st.integers(1, 45), partition=st.sampled_from(("sequential", "shuffled", "kd-tree")),
    overlap=st.sampled_from((0.0, 0.4, 1.5)), warm=st.booleans(), epochs=st.integers(1, 4),
)  # fmt: skip
def test_work_counts_factors_columns_of_updates_checks_and_the_initial_residual(n, b, partition, overlap, warm, epochs):
    p, seen = problem(n=n), Watch()
    solver = apviz.AlternatingProjection(
        block_size=b,
        rule="cyclic",
        partition=partitioner_named(partition, overlap=overlap),
        tol=NEVER,
        max_epochs=epochs,
        check_every=2,
    )
    start = torch.ones_like(p.system.b) if warm else None
    solution = apviz.solve(p.system, solver, [seen], initial_weights=start)
    owned = [min(b, n - i) for i in range(0, n, b)]
    solved = [size + min(int(overlap * size), n - size) for size in owned]
    setup = sum(s**2 for s in solved) + n**2 * warm
    checked = [np.isfinite(e.checked_residual) for e in seen.epochs[1:]]
    assert all(checked[1::2])  # other epochs are checked only if the recursion reached exactly 0, below any tolerance
    entries = setup + solution.epochs * n * sum(solved) + sum(checked) * n**2
    assert round(solution.setup_work * n**2) == setup
    assert round(solution.work * n**2) == entries
    if overlap == 0:
        steps = np.diff([e.work for e in seen.epochs])
        np.testing.assert_allclose(steps, [1.0 + check for check in checked], atol=1e-12)


@pytest.mark.parametrize("rank", [0, 6])
def test_an_iteration_of_cg_costs_one_work_and_so_does_its_check(rank):
    p = problem()
    solver = apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=rank) if rank else None, tol=1e-6)
    solution = apviz.solve(p.system, solver)
    assert solution.setup_work == pytest.approx(rank / 30)
    assert solution.work == pytest.approx(rank / 30 + solution.epochs + 1)


def test_cholesky_evaluates_k_once_and_checks_once():
    solution = apviz.solve(problem().system, apviz.Cholesky())
    assert (solution.setup_work, solution.work) == (1.0, 2.0)


# --- hooks ---------------------------------------------------------------------------------------------------------


class Diary(apviz.Hook):
    def __init__(self):
        self.calls = []

    def on_start(self, run):
        self.calls.append("start")

    def on_update(self, update):
        self.calls.append(f"update {update.number} of epoch {update.epoch}")

    def measure(self, run):
        self.calls.append("measure")
        return {}

    def on_epoch(self, epoch):
        self.calls.append(f"epoch {epoch.number}")

    def on_stop(self, solution):
        self.calls.append("stop")

    def on_abandon(self, error):
        self.calls.append(f"abandon {type(error).__name__}")


def test_hooks_are_called_in_the_order_of_events():
    diary = Diary()
    apviz.solve(problem().system, apviz.AlternatingProjection(block_size=15, tol=NEVER, max_epochs=2), [diary])
    assert diary.calls == [
        "start", "measure", "epoch 0",
        "update 1 of epoch 1", "update 2 of epoch 1", "measure", "epoch 1",
        "update 3 of epoch 2", "update 4 of epoch 2", "measure", "epoch 2",
        "stop",
    ]  # fmt: skip


def test_every_hook_is_told_about_an_error_which_is_raised_again():
    class Broken(apviz.Hook):
        def on_update(self, update):
            raise ZeroDivisionError("mine")

    before, after = Diary(), Diary()
    with pytest.raises(ZeroDivisionError, match="mine"):
        apviz.solve(problem().system, apviz.AlternatingProjection(block_size=15), [before, Broken(), after])
    assert before.calls[-1] == after.calls[-1] == "abandon ZeroDivisionError"
    assert "stop" not in before.calls


@EVERY_SOLVER
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hooks_never_change_the_numbers(solver, dtype):
    p = problem(n=50, dtype=dtype, rhs=3, noise=1.0, lengthscale=0.3)
    test = torch.rand(7, 2), torch.rand(7)
    hooks = [
        Watch(),
        apviz.Recorder(rows=True, snapshots=(0, 3)),
        apviz.PredictionHook(*test),
        apviz.StopHook(max_work=1e9),
    ]
    bare, hooked = apviz.solve(p.system, solver), apviz.solve(p.system, solver, hooks)
    assert torch.equal(bare.weights, hooked.weights)
    same = ("residual", "epochs", "work", "setup_work", "energy", "stop_reason", "stop_message")
    assert all(getattr(bare, name) == getattr(hooked, name) for name in same)


class Greedy(apviz.Hook):
    """Reads everything after every update, and overwrites what it gets."""

    def on_start(self, run):
        self.run = run

    def on_update(self, update):
        run = self.run
        for copy in (run.weights, run.residual_vectors, run.b, run.rhs_norms, run.residual_per_rhs):
            copy.fill_(1e-9)
        update.energy_decrease.fill_(7)
        update.squared_residual.fill_(0)

    def on_epoch(self, epoch):
        epoch.residual_per_rhs.fill_(0)
        self.run.residual_per_rhs.fill_(0)


@EVERY_SOLVER
def test_reading_and_overwriting_by_hooks_never_changes_the_numbers(solver):
    p = problem(n=50, rhs=3, noise=1.0, lengthscale=0.3)
    bare, hooked = apviz.solve(p.system, solver), apviz.solve(p.system, solver, [Greedy()])
    assert torch.equal(bare.weights, hooked.weights) and torch.equal(bare.residual_per_rhs, hooked.residual_per_rhs)
    same = ("residual", "epochs", "work", "energy", "stop_reason")
    assert all(getattr(bare, name) == getattr(hooked, name) for name in same)


@pytest.mark.parametrize("name", ["x", "b", "given_b"])
@pytest.mark.parametrize("solver", [apviz.Cholesky(), apviz.AlternatingProjection(block_size=20)], ids=["direct", "AP"])
def test_a_hook_that_modifies_the_system_ends_the_solve_with_a_clear_error(solver, name):
    class Writing(apviz.Hook):
        def on_epoch(self, epoch):
            if epoch.number == 1:
                getattr(self.run.system, name)[0] = 3.0

        def on_start(self, run):
            self.run = run

    p = problem(n=50, rhs=3, noise=1.0, lengthscale=0.3)
    with pytest.raises(RuntimeError, match="changed x or b during the solve.*create the system again"):
        apviz.solve(p.system, solver, [Writing()])


def test_reading_weights_that_are_pending_in_a_history_changes_no_bit_of_the_solve():
    p = problem(n=50, rhs=3, noise=0.1, lengthscale=0.3)
    solver = apviz.AlternatingProjection(block_size=7, rule="random", step=Subspace(length=4), tol=1e-9, max_epochs=12)
    bare, hooked = apviz.solve(p.system, solver), apviz.solve(p.system, solver, [Greedy()])
    assert torch.equal(bare.weights, hooked.weights) and bare.energy == hooked.energy


# --- limits given to the solve -------------------------------------------------------------------------------------


class Halves(apviz.solvers.Solver):
    """Has no settings of its own."""

    name = label = "halves"

    def epochs(self, prepared, state):
        while True:
            before = state.r.clone()
            w = torch.linalg.solve(state.operator.block(slice(0, len(before))), before) / 2
            state.w += w
            state.r.mul_(0.5)
            decrease = 0.5 * (w * (before + state.r)).sum(0)
            yield apviz.solvers.Updated(-1, decrease.double(), is_whole_epoch=True)
            yield apviz.solvers.EpochEnd()


def small_system():
    x = torch.linspace(0, 1, 60, dtype=torch.float64)
    return apviz.KernelSystem(x, torch.sin(6 * x), apviz.Matern52(lengthscale=0.2), noise=0.1, device="cpu")


@pytest.mark.parametrize(
    "solver", [apviz.AlternatingProjection(block_size=20), apviz.ConjugateGradient(), apviz.Automatic(), Halves()],
    ids=lambda solver: solver.name,
)  # fmt: skip
def test_limits_given_to_the_solve_override_those_of_the_solver(solver):
    for tol in (0.3, 1e-7):
        solution = apviz.solve(small_system(), solver, until=apviz.Stopping(tol=tol))
        assert solution.converged and solution.residual < tol
    if not isinstance(solver, apviz.Automatic):  # Cholesky makes one update
        capped = apviz.solvers.attempt(small_system(), solver, until=apviz.Stopping(tol=1e-12, max_epochs=1))
        assert capped.epochs == 1 and capped.stop_reason is StopReason.MAX_EPOCHS


def test_a_set_up_can_be_solved_with_other_limits():
    system, solver = small_system(), apviz.AlternatingProjection(block_size=20)
    prepared = solver.prepare(system.operator)
    loose, tight = (
        apviz.solve(system, solver, prepared=prepared, until=apviz.Stopping(tol=tol)) for tol in (0.1, 1e-9)
    )
    assert loose.epochs < tight.epochs and tight.residual < 1e-9 and tight.setup_work == 0


def test_without_a_solver_the_recommended_one_is_used():
    solution = apviz.solve(small_system(), until=apviz.Stopping(tol=1e-6))
    assert solution.converged and solution.residual < 1e-6


def test_invalid_limits_are_rejected_by_name():
    with pytest.raises(TypeError, match=r"until must be an apviz.Stopping, .* got 0.1"):
        apviz.solve(small_system(), until=0.1)
    with pytest.raises(ValueError, match="min_epochs must be"):
        apviz.Stopping(min_epochs=5, max_epochs=4)


class Breaks(apviz.solvers.Solver):
    """Drifts, and its residual is not a number after the first update."""

    name = label = "breaks"

    def init(self, prepared, state):
        state.drifts = True
        return state

    def epochs(self, prepared, state):
        while True:
            state.w += 1.0
            state.r.fill_(torch.nan)
            yield apviz.solvers.Updated(-1, torch.zeros(1, dtype=torch.float64), is_whole_epoch=True)
            yield apviz.solvers.EpochEnd()


def test_a_recursive_residual_that_becomes_nan_is_replaced_by_a_residual_in_float64():
    system = small_system()
    in_float32 = apviz.KernelSystem(system.x, system.b, system.kernel, noise=0.1, dtype=torch.float32, device="cpu")
    solution = apviz.solvers.attempt(in_float32, Breaks(), until=apviz.Stopping(max_epochs=3))
    assert solution.residual_is_measured and not solution.converged
    k = system.kernel(system.x).numpy() + 0.1 * np.eye(60)
    b = in_float32.b.double().numpy()
    r = b - k @ solution.weights.numpy()
    assert solution.residual == pytest.approx(np.linalg.norm(r) / np.linalg.norm(b), rel=1e-5)
