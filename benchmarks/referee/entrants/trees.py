"""Gradient-boosted trees by LightGBM, the entrant that is no GP; its errors are taken as Gaussian with one variance."""

from __future__ import annotations

from collections.abc import Iterator

import lightgbm
import numpy as np

from benchmarks.referee.task import Clock, Prediction, Task

HELD_OUT, PATIENCE = 0.2, 50
#: trees at most, and their learning rate
STAGES = ((100, 0.1), (2_000, 0.05), (10_000, 0.01))


class Trees:
    """`LGBMRegressor`, stopped early on a fifth of the rows, whose errors give the variance of the noise."""

    def predict(self, task: Task, clock: Clock) -> Iterator[Prediction]:
        task.need(track="own")
        rows = np.random.default_rng(task.seed).permutation(len(task.y))
        held, kept = np.split(rows, [int(HELD_OUT * len(rows))])
        for trees, rate in STAGES:
            model = lightgbm.LGBMRegressor(
                n_estimators=trees, learning_rate=rate, n_jobs=1, random_state=task.seed, verbose=-1
            )
            stop = lightgbm.early_stopping(PATIENCE, verbose=False)
            model.fit(task.x[kept], task.y[kept], eval_set=[(task.x[held], task.y[held])], callbacks=[stop])
            noise = float(np.mean((model.predict(task.x[held]) - task.y[held]) ** 2))
            yield Prediction(model.predict(task.z), np.zeros(len(task.z)), noise)
