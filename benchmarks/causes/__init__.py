"""Made-up systems whose trouble is known, for it was put there: does the diagnosis name it?

Of 125 systems 100 have one thing wrong, their `cause`, a name of `apviz.analysis.Limit`, and 25 have nothing. They are
solves (`systems`, `drawn`), GPyTorch models and trainings (`models`). Nothing here looks at a diagnosis to know what is
true. `undone` takes the trouble of a solve back; that it really is the cause is seen without any diagnosis: with it
undone the solve converges, in little work, and predicts.

`systems` has 60 fixed constructions on data of any seed; the others draw sizes, magnitudes and methods too. Rules and
thresholds were set with seeds 0 to 9 in sight. `python -m benchmarks.causes` judges by seeds from 100 on, which nothing
was tuned with, and keeps in `benchmarks/results/causes.json` what was said of each system; `--seed 0` is for tuning,
and `python -m benchmarks.causes --seed 0 3 17` prints some.
"""
