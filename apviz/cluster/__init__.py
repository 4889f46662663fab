"""Many tasks on the workers of a Dask cluster, of other machines or of this one; which runs where and when is Dask's.

A task writes below a folder, and returns something small. A worker that sees the folder which was asked for writes
there, so that runs are seen as they grow; one that does not writes into a folder of its own, of which the files come
back when the task is done. What a worker that was lost had begun runs again on another; of the first try is left what
a killed process leaves. A worker holds no more memory than it was given: a task that needs more is asked of a larger
one, or says so. A task that nobody waits for any more ends as by Ctrl-C.
"""

from apviz.cluster.client import Cluster
from apviz.cluster.tasks import Done, Here, Task

__all__ = ["Cluster", "Done", "Here", "Task"]
