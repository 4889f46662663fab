"""Recording: hooks, the recorder, the trace and its store."""

from apviz.tracing.hooks import PredictionHook, ProgressHook, StopHook
from apviz.tracing.opening import open_trace
from apviz.tracing.recorder import Recorder
from apviz.tracing.trace import Trace
from apviz.tracing.training_trace import TrainingTrace

__all__ = ["PredictionHook", "ProgressHook", "Recorder", "StopHook", "Trace", "TrainingTrace", "open_trace"]
