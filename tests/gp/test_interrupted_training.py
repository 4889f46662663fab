"""A training that is interrupted within any step, or whose disk fails at any call, resumes to the same end."""

import errno
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import apviz
from tests.gp.small_trainings import training
from tests.trust.disk import FailingDisk

STEPS = 3
AP = apviz.AlternatingProjection(block_size=20, tol=1e-2, max_epochs=20)


class CtrlC:
    """Raises KeyboardInterrupt at the k-th line run in these files."""

    def __init__(self, k, files):
        self.left, self.files = k, files

    def __call__(self, frame, event, argument):
        if event == "call" and not frame.f_code.co_filename.endswith(self.files):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


OF_TRAINING = ("training", "state", "optimisers", "objectives")
STEPPED = (*(f"gp/training/{name}.py" for name in OF_TRAINING), "tracing/store.py")


def end(one):
    trace = one.trace["step"].drop_vars("seconds")
    return one.hyperparameters, {name: trace[name].values.tobytes() for name in trace}


def test_a_training_interrupted_at_any_line_of_a_step_resumes_to_the_same_end():
    settings = {"solver": AP, "steps": STEPS, "probes": 2, "warm_start": True}
    whole = training(n=40, **settings)
    whole.run()
    interrupted, before = 0, sys.gettrace()
    for k in range(1, 2000, 53):
        one = training(n=40, **settings)
        sys.settrace(CtrlC(k, STEPPED))
        try:
            one.run()
            break
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(before)
        assert one.steps_done == len(one.trace["step"]["step"]) if one.steps_done else True
        one.run()
        assert end(one) == end(whole), f"interrupted at line {k}"
    assert interrupted > 5


def test_a_step_that_fails_after_its_solve_does_not_change_the_initial_weights_of_the_next():
    class Broken(apviz.Hook):
        def on_stop(self, solution):
            raise MemoryError("no memory, 1 GiB are free")

    settings = {"solver": AP, "steps": STEPS, "probes": 2, "warm_start": True}
    whole, one = training(n=40, **settings), training(n=40, **settings)
    whole.run()
    with pytest.raises(apviz.TrainingError, match="training step 1"):
        one.run([Broken()])
    one.run()
    assert end(one) == end(whole)


def test_whichever_disk_call_fails_a_training_continues_at_its_path(tmp_path):
    whole = training(n=30, steps=STEPS)
    whole.run()

    def begun(name):
        path = tmp_path / name / "a.zarr"
        training(path, n=30, steps=1).run()
        return path

    path = begun("undisturbed")
    one = training(path, n=30, steps=STEPS)
    with FailingDisk(path.parent) as disk:
        one.run()
    # every call around checkpoints; the files of the trace are all alike
    for k in [*range(1, 13), *range(13, disk.calls, 97), disk.calls]:
        path = begun(str(k))
        one = training(path, n=30, steps=STEPS)
        with warnings.catch_warnings(record=True) as said, FailingDisk(path.parent, lambda c, k=k: c == k, errno.EIO):
            warnings.simplefilter("always")
            one.run()
        assert sum("could not be written" in str(each.message) for each in said) <= 1
        assert one.path == path and not list(path.parent.glob("*continued*")), f"call {k}"
        assert end(one) == end(whole)
        again = training(path, n=30, steps=STEPS)
        again.run()
        assert end(again) == end(whole), f"call {k}"


def test_a_training_interrupted_right_after_a_checkpoint_resumes(tmp_path, monkeypatch):
    one, replace = training(tmp_path / "a.zarr", n=30, steps=STEPS), Path.replace

    def replaced_and_interrupted(self, target):
        replace(self, target)
        if Path(target).name.endswith(".checkpoint.npz"):
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", replaced_and_interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.run()
    monkeypatch.undo()
    assert one.steps_done == 1 and np.isfinite(one.hyperparameters.noise)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one.run()
    assert one.path == tmp_path / "a.zarr" and apviz.open_trace(one.path).finished
