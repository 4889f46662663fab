"""Many ranks agree with one process and with dense float64 linear algebra, and their communication is counted."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch

import apviz
from apviz.partitions import KDTree, PrincipalAxisTree
from apviz.solvers import Skeletons, Subspace, attempt
from apviz.solvers.choosing.automatic import overlapping
from tests.device import DEVICE, only_on_the_cpu
from tests.ranks import on_ranks
from tests.textbook import matern32, rbf

pytestmark = only_on_the_cpu("NCCL needs a GPU for each rank, so ranks are tested with gloo")

N, D, SIDES, BLOCK = 613, 2, 3, 97
NOISE = 1.0
KERNEL = apviz.Matern32(lengthscale=0.4) + 0.3 * apviz.RBF(lengthscale=1.5)


def points(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(N, D, generator=generator, dtype=torch.float64)
    return x, torch.cat([torch.sin(9 * x[:, :1]), torch.randn(N, SIDES - 1, generator=generator).double()], 1)


def textbook_matrix(z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    r = np.sqrt(((z.numpy()[:, None] - x.numpy()[None]) ** 2).sum(2))
    return torch.from_numpy(matern32(r / 0.4) + 0.3 * rbf(r / 1.5))


def system_of(**settings) -> apviz.KernelSystem:
    x, b = points()
    return apviz.KernelSystem(x, b, KERNEL, noise=settings.pop("noise", NOISE), operator="tiled", device=DEVICE)


SOLVERS = {
    "paper": apviz.AlternatingProjection(block_size=BLOCK, tol=0.1),
    "cyclic, overlapping": apviz.AlternatingProjection(
        block_size=BLOCK, rule="cyclic", partition=KDTree(overlap=0.7), tol=1e-6
    ),
    "shuffled, history": apviz.AlternatingProjection(
        block_size=BLOCK, rule="shuffled", step=Subspace(length=4), tol=0.1
    ),
    "skeletons": overlapping(block_size=60, columns=Skeletons(rank=12, near=250), fallback_rank=0, tol=1e-4),
    # at other tolerances, rounding of 1e-7 changes the number of iterations of CG by one
    "CG": apviz.ConjugateGradient(tol=2e-3),
    "CG, pivots": apviz.ConjugateGradient(preconditioner=apviz.PivotedCholesky(rank=20), tol=1e-6),
    "CG, Schwarz": apviz.ConjugateGradient(
        preconditioner=apviz.TwoLevelSchwarz(block_size=100, partition=PrincipalAxisTree(overlap=0.5), coarse_rank=10),
        tol=1e-6,
    ),
    "Cholesky": apviz.Cholesky(),
    "automatic": apviz.Automatic(tol=1e-6),
    "a rival": apviz.solvers.CoordinateDescentPlusPlus(block_size=60, tol=1e-2),
}


def solves() -> dict[str, tuple]:
    system, found = system_of(), {}
    for name, solver in SOLVERS.items():
        recorder = apviz.Recorder()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solution = attempt(system, solver, [recorder])
        trace = recorder.trace
        chosen = trace["update"]["block"].values if solution.epochs else np.zeros(0)
        found[name] = (solution.weights.numpy(), chosen, solution.epochs, solution.work, solution.converged)
        found[name] += ("messages" in trace["update"] or "ranks" in trace.attrs,) if solution.epochs else ()
    return found


def everything() -> tuple:
    """Do all that two ranks do in tests, because a start of ranks takes seconds."""
    return solves(), by_a_stored_k(), stopped()


@pytest.fixture(scope="module")
def alone():
    return solves()


@pytest.fixture(scope="module")
def of_two(tmp_path_factory):
    return on_ranks(2, tmp_path_factory.mktemp("two"), everything)


@pytest.fixture(scope="module")
def on_two(of_two):
    return [found for found, _, _ in of_two]


@pytest.mark.parametrize("name", SOLVERS)
def test_two_ranks_choose_the_same_blocks_and_find_the_same_weights_for_the_same_work(name, alone, on_two):
    weights, chosen, epochs, work, converged = alone[name][:5]
    assert converged
    for theirs, their_blocks, their_epochs, their_work, their_end in (found[name][:5] for found in on_two):
        assert their_end and their_epochs == epochs
        assert np.array_equal(their_blocks, chosen)
        assert their_work == pytest.approx(work, rel=1e-12)
        scale = np.abs(weights).max()
        assert np.abs(theirs - weights).max() < 1e-5 * scale  # one float32 recursion in another order of summation


@pytest.mark.parametrize("name", SOLVERS)
def test_all_ranks_return_bitwise_the_same_weights(name, on_two):
    assert np.array_equal(on_two[0][name][0], on_two[1][name][0])


@pytest.mark.slow
def test_a_second_run_on_two_ranks_gives_bitwise_the_same_weights(on_two, tmp_path):
    again = on_ranks(2, tmp_path, solves)[0]
    for name in SOLVERS:
        assert np.array_equal(again[name][0], on_two[0][name][0]), name


@pytest.mark.slow
def test_four_ranks_agree_with_one(alone, tmp_path):
    for found in on_ranks(4, tmp_path, solves):
        for name, (weights, chosen, epochs, work, *_) in alone.items():
            assert np.array_equal(found[name][1], chosen) and found[name][2] == epochs, name
            assert found[name][3] == pytest.approx(work, rel=1e-12), name
            assert np.abs(found[name][0] - weights).max() < 1e-5 * np.abs(weights).max(), name


# --- other methods of an operator -------------------------------------------------------------------------------------


def products() -> dict[str, dict[str, torch.Tensor]]:
    _, b = points()
    noises = torch.linspace(0.01, 0.2, N, dtype=torch.float64)
    found = {}
    for name, noise in (("one noise", NOISE), ("noises", noises)):
        operator = system_of(noise=noise).operator
        z, rows = torch.rand(5, D, generator=torch.Generator().manual_seed(1)).double(), torch.tensor([3, 400, 77])
        derivatives = operator.bilinear_derivatives(b, 2 * b.flip(1), with_inputs=True)
        sharded = operator.sharded()
        here = sharded.layout.local(b)
        r = here.clone()
        sharded.subtract_part_(r, torch.arange(0, N, 3), torch.tensor([3, 9, 600]), b[:3])
        found[name] = {
            "matmul": operator.matmul(b), "rows": operator.rows_matmul(rows, b), "cross": operator.cross_matmul(z, b),
            "columns": operator.columns_matmul(slice(20, 300), b[20:300]),
            "kernel": torch.cat([each.flatten() for each in derivatives.kernel.values()]),
            "noise": derivatives.noise, "inputs": derivatives.inputs,
            "sharded matmul": sharded.layout.whole(sharded.matmul(here)),
            "sharded rows": sharded.rows_matmul(rows, here),
            "sharded part": sharded.layout.whole(r),
            "norms": sharded.squared_norms(here, [0, 97, 194, N], torch.empty_like(here)),
        }  # fmt: skip
    return found


def test_products_and_derivatives_on_three_ranks_agree_with_dense_algebra(tmp_path):
    x, b = points()
    k = textbook_matrix(x, x)
    for found in on_ranks(3, tmp_path, products):
        for name, noise in (("one noise", torch.full((N,), NOISE)), ("noises", torch.linspace(0.01, 0.2, N))):
            whole, got = k + torch.diag(noise.double()), found[name]
            z = torch.rand(5, D, generator=torch.Generator().manual_seed(1)).double()
            rows = [3, 400, 77]
            part = b.clone()
            part[0:N:3] -= whole[0:N:3][:, [3, 9, 600]] @ b[:3]
            expected = {
                "matmul": whole @ b, "rows": whole[rows] @ b, "cross": textbook_matrix(z, x) @ b,
                "columns": whole[:, 20:300] @ b[20:300], "sharded matmul": whole @ b, "sharded rows": whole[rows] @ b,
                "sharded part": part,
                "norms": torch.stack([b[a:e].square().sum(0) for a, e in ((0, 97), (97, 194), (194, N))]),
            }  # fmt: skip
            for key, value in expected.items():
                torch.testing.assert_close(got[key], value, rtol=1e-6, atol=1e-6, msg=lambda m, key=key: f"{key}: {m}")
    alone = products()
    for name in alone:
        for key in ("kernel", "noise", "inputs"):
            torch.testing.assert_close(found[name][key], alone[name][key], rtol=1e-6, atol=1e-6)


def trained_and_predicted() -> tuple:
    x, b = points()
    gp = apviz.GaussianProcess(
        kernel=apviz.Matern52(lengthscale=0.5),
        max_steps=3,
        optimiser="adam",
        dtype="float64",
        training_solver=apviz.ConjugateGradient(tol=1e-4),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp.fit(x[:300].numpy(), b[:300, 0].numpy())
        mean, deviation = gp.predict(np.array([[0.2, 0.3], [0.7, 0.1]]), return_std=True)
    return mean, deviation, gp.log_marginal_likelihood()


@pytest.mark.slow
def test_training_and_variances_on_two_ranks_agree_with_those_on_one(tmp_path):
    mean, deviation, likelihood = trained_and_predicted()
    for theirs in on_ranks(2, tmp_path, trained_and_predicted):
        assert theirs[0] == pytest.approx(mean, rel=1e-3, abs=1e-3)
        assert theirs[1] == pytest.approx(deviation, rel=1e-2)
        assert theirs[2] == pytest.approx(likelihood, rel=1e-3)


# --- communication ----------------------------------------------------------------------------------------------------


def traffic() -> tuple:
    recorder = apviz.Recorder()
    attempt(system_of(), apviz.AlternatingProjection(block_size=BLOCK, tol=1e-2), [recorder])
    update, passes = recorder.trace["update"], recorder.trace["pass"]
    return (
        np.diff(update["messages"].values), np.diff(update["message_bytes"].values), update["epoch_of_update"].values,
        passes["message_bytes"].values, recorder.trace.attrs["ranks"],
    )  # fmt: skip


@pytest.mark.slow
def test_an_update_communicates_its_rows_of_r_and_u_and_the_norms_of_blocks(tmp_path):
    (messages, sizes, epochs, passes, ranks), other = on_ranks(2, tmp_path, traffic)
    assert ranks == 2 and np.array_equal(other[0], messages)
    inside = epochs[1:] == epochs[:-1]
    blocks, item = math.ceil(N / BLOCK), 8
    # R_I to the rank with the factor, U to all ranks, the decrease of h, and the norms
    assert set(messages[inside]) == {4}
    largest = (2 * BLOCK * SIDES + SIDES + blocks * SIDES) * item
    shorter = largest - 2 * (BLOCK - N % BLOCK) * SIDES * item
    assert set(sizes[inside]) <= {largest, shorter} and largest in sizes[inside]
    assert (np.diff(passes) > 0).all() and len(passes) > 0


def test_two_ranks_record_traffic_and_one_process_does_not(alone, on_two):
    assert not alone["paper"][5] and on_two[0]["paper"][5]


# --- settings -------------------------------------------------------------------------------------------------------


def by_a_stored_k() -> tuple:
    x, b = points()
    system = apviz.KernelSystem(x, b, KERNEL, noise=NOISE, operator="dense", device=DEVICE)
    recorder = apviz.Recorder()
    return attempt(system, SOLVERS["paper"], [recorder]).weights, "messages" in recorder.trace["update"]


def test_with_a_stored_k_ranks_exchange_nothing(of_two):
    (first, of_first), (second, of_second) = (found for _, found, _ in of_two)
    assert torch.equal(first, second) and not of_first and not of_second


@pytest.mark.parametrize(
    ("settings", "said"), [({"backend": "mpi"}, "backend must be auto, gloo or nccl, got 'mpi'"),
                           ({"timeout": 0}, "timeout must be positive, in seconds, got 0")],
)  # fmt: skip
def test_settings_of_a_job_are_validated(settings, said):
    with pytest.raises(ValueError, match=said):
        apviz.distributed.init(**settings)


def stopped() -> tuple:
    rank = apviz.distributed.current().rank
    hook = apviz.StopHook(max_seconds=0.0 if rank == 0 else 1e9)
    solution = attempt(system_of(), apviz.AlternatingProjection(block_size=BLOCK, tol=1e-9), [hook])
    return solution.epochs, str(solution.stop_reason)


def test_a_stop_requested_on_rank_0_ends_all_ranks_after_the_epoch(of_two):
    assert [found for _, _, found in of_two] == [(1, "stopped")] * 2
