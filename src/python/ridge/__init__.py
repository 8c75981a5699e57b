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
        Report,
        Result,
        ScoredToken,
        Step,
        Stream,
        Tokenizer,
        TokenScores,
        Trainer,
        Value,
        __version__,
        import_trace,
        load,
        machine,
        parse,
        plan,
    )
finally:
    if _limits:
        del _os.environ["GOMP_SPINCOUNT"]
from ridge.errors import DeviceError, Error, MemoryError, ModelError, UsageError
from ridge.profile import profile

__all__ = [
    "Cost",
    "DeviceError",
    "Error",
    "Graph",
    "Measurement",
    "MemoryError",
    "Model",
    "ModelError",
    "Parameters",
    "Report",
    "Result",
    "ScoredToken",
    "Step",
    "Stream",
    "TokenScores",
    "Tokenizer",
    "Trainer",
    "UsageError",
    "Value",
    "__version__",
    "import_trace",
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
