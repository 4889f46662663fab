from .hooks import PredictionHook as PredictionHook
from .hooks import ProgressHook as ProgressHook
from .hooks import StopHook as StopHook
from .opening import open_trace as open_trace
from .recorder import Recorder as Recorder
from .trace import Trace as Trace
from .training_trace import TrainingTrace as TrainingTrace
