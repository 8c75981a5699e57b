# SPDX-License-Identifier: Apache-2.0
"""Ridge: an engine and profiler for language models.

>>> import ridge
>>> model = ridge.load("SmolLM2-135M-Instruct.Q4_1.gguf")
>>> print(model.generate("The capital of France is", max_tokens=8))
"""
import os as _os

# OpenMP's threads spin for about 0.1 ms as in the program: it reads this when it is loaded.
_limits = not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & _os.environ.keys()
if _limits:
    _os.environ["GOMP_SPINCOUNT"] = "3000"
try:
    from ridge._ridge import (
        Cost,
        Graph,
        Measurement,
        Model,
        Parameters,
        Pass,
        Report,
        Result,
        ScoredToken,
        Session,
        Step,
        Stream,
        Tokenizer,
        TokenScores,
        Trainer,
        Value,
        import_trace,
        lab,
        load,
        machine,
        parse,
        plan,
    )
    from ridge._ridge import __version__  # type: ignore[attr-defined]
finally:
    if _limits:
        del _os.environ["GOMP_SPINCOUNT"]
from ridge.engine import Answer, Engine
from ridge.errors import DeviceError, Error, MemoryError, ModelError, UsageError
from ridge.kernel import Kernel, kernel
from ridge.profile import profile
from ridge.torch_graph import TorchGraph, from_torch

__all__ = [
    "Answer",
    "Cost",
    "DeviceError",
    "Engine",
    "Error",
    "Graph",
    "Kernel",
    "Measurement",
    "MemoryError",
    "Model",
    "ModelError",
    "Parameters",
    "Pass",
    "Report",
    "Result",
    "ScoredToken",
    "Session",
    "Step",
    "Stream",
    "TokenScores",
    "Tokenizer",
    "TorchGraph",
    "Trainer",
    "UsageError",
    "Value",
    "__version__",
    "from_torch",
    "import_trace",
    "kernel",
    "lab",
    "load",
    "machine",
    "parse",
    "plan",
    "profile",
]

try:
    from ridge._ridge import demo  # a build without courses has none
except ImportError:
    pass
else:
    __all__.append("demo")
