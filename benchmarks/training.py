"""Training by every way there is, on sgemm and air quality at n = 8,000: what is found, and how long it takes.

50 Adam steps of 0.1 on 15 probes from raw parameters of zero, Matérn-5/2, σ² ≥ 1e-4, as in the paper:

- by Cholesky in float64, which the others are held against: with the same probes, at tolerance 0.01, the noise must
  come within 10%, the log likelihood within 0.01 nat a row, the test RMSE within 1%. Both are computed exactly, by a
  dense Cholesky factor in float64, at what each training found;
- by the paper's alternating projection at 0.01, and as in the paper at 1 after at least 11 epochs: the gap is reported;
- by overlapping alternating projection at 0.01, cold and warm;
- by GPyTorch's own CG, tolerance 1 after at least 11 iterations, with its dense and its KeOps kernel. Nothing but what
  training needs: no value of log det K, and no more iterations for it.

One process a cell; a cell that is in `results/training.json` is not run again, so a run that was cut goes on.

    python -m benchmarks.training [--n 8000] [--only WORD] [sgemm|airquality ...]
"""

from __future__ import annotations

from benchmarks.machine import RESULTS

PATH = RESULTS / "training.json"
DATASETS, N, TEST_ROWS = ("sgemm", "airquality"), 8_000, 10_000
STEPS, STEP_SIZE, PROBES, NOISE_FLOOR = 50, 0.1, 15, 1e-4
REFERENCE, OVERLAPPING, WARM = "Cholesky, float64", "AP overlapping, to 0.01", "AP overlapping, to 0.01, warm"
PAPER_CLOSE, PAPER_LOOSE = "AP, the paper's, to 0.01", "AP, the paper's, to 1"
#: at tolerance 0.01, against Cholesky: ratios of noise and of test RMSE to 1, nats a row
GOALS = {"noise": 0.1, "log likelihood": 0.01, "test RMSE": 0.01}
