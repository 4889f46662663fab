"""Many tasks on the workers of a Dask cluster, remote or local; Dask decides which task runs where and when.

A task writes files into a folder and returns a small result that JSON can hold. A worker that sees the folder of the
run writes there, so that runs can be followed; any other worker writes into a temporary folder, whose files are sent
back at the end of the task. The task of a lost worker runs again on another one; the first attempt leaves what a killed
process leaves. A worker never takes more memory than its limit: a task that needs more is sent to a larger worker, or
fails and says so. A cancelled task ends as by Ctrl-C.
"""

from apviz.cluster.client import Cluster
from apviz.cluster.tasks import Done, Here, Task

__all__ = ["Cluster", "Done", "Here", "Task"]
