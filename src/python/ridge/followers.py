# SPDX-License-Identifier: Apache-2.0
"""The processes that share a model with this one: `ridge.load(..., tensor_parallel=)` starts them, unless a launcher did."""
import os
import pathlib
import pickle
import subprocess
import sys
import threading
from typing import Any

# They end when the first process closes the model, or their standard input, which is when it ends.
_started: list["subprocess.Popen[bytes]"] = []


def start(ranks: int, port: int, path: str, options: dict[str, Any]) -> None:
    """Starts the ranks after the first, which load the model with the same options and join at the port."""
    given = pickle.dumps((path, options))
    _started[:] = [each for each in _started if each.poll() is None]
    package = str(pathlib.Path(__file__).parents[1])
    for rank in range(1, ranks):
        environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
                       "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                       "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))}
        environment.pop("TORCHELASTIC_USE_AGENT_STORE", None)
        child = subprocess.Popen([sys.executable, "-c", "import ridge.followers as f; f.follow()"], env=environment,
                                 stdin=subprocess.PIPE)
        assert child.stdin is not None
        child.stdin.write(given)
        child.stdin.flush()
        _started.append(child)


def follow() -> None:
    """The other side: runs the first process's steps, and ends with them."""
    import ridge

    path, options = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_the_first, daemon=True).start()
    ridge.load(path, **options)


def _end_with_the_first() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)
