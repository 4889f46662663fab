"""Recording: hooks, the recorder, the trace and its store."""

from apviz.tracing.hooks import PredictionHook, ProgressHook, StopHook
from apviz.tracing.recorder import Recorder
from apviz.tracing.trace import Trace, open_trace

__all__ = ["PredictionHook", "ProgressHook", "Recorder", "StopHook", "Trace", "open_trace"]
