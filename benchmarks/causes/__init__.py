"""Synthetic systems with a known cause of trouble, to test whether the diagnosis names it.

Of 125 systems 100 have one thing wrong, their `cause`, a name of `apviz.analysis.Limit`, and 25 have nothing. They are
solves (`systems`, `drawn`), GPyTorch models and trainings (`models`). The true cause never comes from a diagnosis.
`undone` removes the trouble of a solve. Without any diagnosis this shows that the cause is real: once the trouble is
removed, the solve converges in little work, and predicts.

`systems` has 60 fixed constructions on data of any seed; the others draw sizes, magnitudes and methods too. Rules and
thresholds were set with seeds 0 to 9. `python -m benchmarks.causes` judges by seeds from 100 on, which no tuning
used, and keeps every diagnosis in `benchmarks/results/causes.json`; `--seed 0` is for tuning,
and `python -m benchmarks.causes --seed 0 3 17` prints some.
"""
