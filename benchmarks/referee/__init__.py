"""Exact and approximate models compared on equal processor seconds, and their distance from the exact posterior.

**The task.** An entrant gets n training rows, 1,000 test inputs (fewer if a set has fewer) and a budget of processor
seconds. It predicts the mean and variance of f, and the variance of the noise. It may predict several times: the last
prediction that was finished within the budget counts. An entrant without one has "not finished", which is not a number.

**Two tracks.** `same`: the hyperparameters are given (those of the data card, else an exact fit to 1,000 rows), and the
question is how good the approximation is. `own`: the entrant chooses everything, and the question is how good the model
is.

**Seconds** are those of the processor, user and system, of the entrant's own process with one thread, between the first
look at the data and the prediction. Imports, and a warm-up on 100 rows, do not count. Seconds and memory of a
prediction are those of the last one.

**Judged by** RMSE, negative log likelihood (NLL), coverage and width of 95% intervals, and CRPS of an observation, all
in units of the standardised target. In the track `same` also by the distance from the exact posterior of f, which apviz
computes to 1e-4 posterior standard deviations of f, with its certificate.
"""
