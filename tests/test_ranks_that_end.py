"""A rank that is killed, hangs, fails or runs out of memory ends the others in time, and the trace opens."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import apviz
from tests.ports import free_port
from tests.ranks import on_ranks

LOST = "lost the connection to another rank"
#: an endless solve that writes its trace and weights; one rank may run code of its own
SOLVE = """
import sys, torch, apviz
ranks = apviz.distributed.init(timeout=8.0)
torch.set_num_threads(1)
x = torch.linspace(0, 1, 900, dtype=torch.float64)[:, None]
b = torch.sin(9 * x)
system = apviz.KernelSystem(x, b, apviz.Matern12(lengthscale=0.3), noise=1e-4, device="cpu")
class Trouble(apviz.Hook):
    def on_epoch(self, epoch):
        if epoch.number == 3:
            print("under way", ranks.rank, flush=True)
            if ranks.rank == ranks.size - 1:
                exec(sys.argv[2])
hooks = [apviz.Recorder(sys.argv[1] + "/ap.zarr"), apviz.KeepWeights(sys.argv[1] + "/w.npz"), Trouble()]
apviz.solve(system, apviz.AlternatingProjection(block_size=90, tol=1e-15, max_epochs=10**7), hooks=hooks)
"""


class Job:
    """Ranks of the solve above, without torchrun, which would end the others by itself."""

    def __init__(self, folder: Path, trouble: str = "pass", size: int = 2) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "solve.py").write_text(SOLVE)
        port, self.folder, self.size = free_port(), folder, size
        self.processes = []
        for rank in range(size):
            env = os.environ | {
                "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
            }  # fmt: skip
            with open(folder / f"{rank}.out", "wb") as out, open(folder / f"{rank}.err", "wb") as err:
                self.processes.append(subprocess.Popen(
                    [sys.executable, folder / "solve.py", folder, trouble], env=env, stdout=out, stderr=err
                ))  # fmt: skip

    def wait_for_epochs(self) -> None:
        until = time.monotonic() + 240
        while not (self.folder / "0.out").read_text() and time.monotonic() < until:
            time.sleep(0.1)
        assert "under way" in (self.folder / "0.out").read_text(), self.said(0)

    def said(self, rank: int) -> str:
        return (self.folder / f"{rank}.err").read_text()

    def seconds_to_end(self, survivors: list[int]) -> float:
        started = time.monotonic()
        try:
            for rank in survivors:
                assert self.processes[rank].wait(120) != 0
        finally:
            for each in self.processes:
                each.kill()
                each.wait()
        return time.monotonic() - started

    def trace(self) -> apviz.Trace:
        return apviz.open_trace(self.folder / "ap.zarr")


@pytest.mark.slow
def test_a_killed_rank_ends_the_others_and_the_trace_opens(tmp_path):
    job = Job(tmp_path, size=3)
    job.wait_for_epochs()
    job.processes[1].send_signal(signal.SIGKILL)
    assert job.seconds_to_end([0, 2]) < 30  # the documented limit
    for rank in (0, 2):
        assert f"rank {rank} of 3 {LOST}" in job.said(rank), job.said(rank)
    trace = job.trace()
    assert trace.attrs["status"] == "interrupted" and len(trace["epoch"]["epoch"]) > 3
    assert "RankLost" in trace.attrs["stop_message"]


@pytest.mark.slow
def test_a_stopped_rank_ends_the_others_after_the_timeout(tmp_path):
    job = Job(tmp_path)
    job.wait_for_epochs()
    job.processes[1].send_signal(signal.SIGSTOP)
    assert job.seconds_to_end([0]) < 30
    assert f"rank 0 of 2 {LOST}, which was killed, has ended, or did not answer for 8 s" in job.said(0)
    assert job.trace().attrs["status"] == "interrupted"


@pytest.mark.slow
def test_torchrun_names_the_rank_that_was_killed(tmp_path):
    (tmp_path / "solve.py").write_text(SOLVE)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", tmp_path / "solve.py", tmp_path]
    done = subprocess.run([*command, "import os; os.kill(os.getpid(), 9)"], capture_output=True, text=True, timeout=240)
    assert done.returncode != 0
    report = done.stderr.partition("Root Cause")[2]
    assert "rank      : 1" in report and "exitcode  : -9" in report
    trace = apviz.open_trace(tmp_path / "ap.zarr")
    assert "RankLost" in trace.attrs["stop_message"] and len(trace["epoch"]["epoch"]) > 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("import time; time.sleep(1000)", f"rank 0 of 2 {LOST}"),
        ("raise MemoryError('12 GiB are needed, 3 are free')", "rank 1 of 2 ended by MemoryError: 12 GiB are needed"),
        ("raise ValueError('a hook of one rank')", "rank 1 of 2 ended by ValueError: a hook of one rank"),
        ("import os; os._exit(3)", f"rank 0 of 2 {LOST}"),
        ("sys.exit(0)", "rank 1 of 2 ended by SystemExit: 0"),
    ],
    ids=["sleeps", "no memory", "fails", "exits at once", "leaves"],
)
def test_a_rank_in_trouble_ends_the_others_with_its_sentence(tmp_path, trouble, said):
    job = Job(tmp_path, trouble)
    job.wait_for_epochs()
    assert job.seconds_to_end([0]) < 30
    assert said in job.said(0), job.said(0)
    assert job.trace().attrs["status"] == "interrupted"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_killing_random_ranks_at_random_moments_never_hangs_and_leaves_traces_that_open(tmp_path, seed):
    rng = random.Random(seed)
    size = rng.choice([2, 3, 4])
    job = Job(tmp_path, size=size)
    job.wait_for_epochs()
    time.sleep(rng.uniform(0, 3))
    victim = rng.randrange(size)
    job.processes[victim].send_signal(rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
    assert job.seconds_to_end([rank for rank in range(size) if rank != victim]) < 30
    assert len(job.trace()["epoch"]["epoch"]) >= 1
    for rank in range(size):
        if rank != victim:
            assert f"rank {rank} of {size} {LOST}" in job.said(rank), job.said(rank)


def finished(path: str) -> tuple[torch.Tensor, int]:
    x = torch.linspace(0, 1, 300, dtype=torch.float64)[:, None]
    system = apviz.KernelSystem(
        x, torch.sin(9 * x), apviz.Matern12(lengthscale=0.3), noise=0.1, operator="tiled", device="cpu"
    )
    hooks = [apviz.KeepWeights(path)]
    started = Path(path).exists()
    first = apviz.last_weights(path, system) if started else None
    solver = apviz.AlternatingProjection(
        block_size=60, tol=1e-8, max_epochs=1000 if started else 5, step=apviz.solvers.Subspace(length=3)
    )
    solution = apviz.solvers.attempt(system, solver, hooks, first)
    return solution.weights, solution.epochs


def test_a_solve_continues_from_its_last_weights_on_another_number_of_ranks(tmp_path):
    path = str(tmp_path / "w.npz")
    on_ranks(2, tmp_path / "two", finished, path)
    on_three = on_ranks(3, tmp_path / "three", finished, path)
    weights, epochs = finished(path)  # one process, starting from the weights of three ranks
    assert epochs <= 1 < on_three[0][1]
    x = torch.linspace(0, 1, 300, dtype=torch.float64)[:, None]
    k = torch.exp(-(x - x.T).abs() / 0.3) + 0.1 * torch.eye(300, dtype=torch.float64)
    exact = torch.linalg.solve(k, torch.sin(9 * x))
    assert (weights - exact).norm() < 1e-6 * exact.norm()


def test_weights_of_other_data_are_rejected(tmp_path):
    x = torch.linspace(0, 1, 50, dtype=torch.float64)
    systems = [
        apviz.KernelSystem(x, torch.sin(k * x), apviz.RBF(lengthscale=0.3), noise=0.1, device="cpu") for k in (1, 2)
    ]
    apviz.solve(systems[0], apviz.ConjugateGradient(), hooks=[apviz.KeepWeights(tmp_path / "w.npz")])
    assert apviz.last_weights(tmp_path / "w.npz", systems[0]).shape == (50, 1)
    with pytest.raises(ValueError, match="with other inputs or right-hand sides"):
        apviz.last_weights(tmp_path / "w.npz", systems[1])
    (tmp_path / "no.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"no.npz does not hold the weights of a solve"):
        apviz.last_weights(tmp_path / "no.npz", systems[0])
    with pytest.raises(ValueError, match="every must be"):
        apviz.KeepWeights(tmp_path / "w.npz", every=0)
