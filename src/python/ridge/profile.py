# SPDX-License-Identifier: Apache-2.0
"""A step of PyTorch as a report of Ridge."""
import os
import tempfile
from types import TracebackType
from typing import Any

from ridge._ridge import Report, import_trace
from ridge.errors import UsageError


class profile:
    """Profiles what runs within `with ridge.profile() as p:` by torch.profiler, with the options that Ridge's importer
    reads, and keeps the report in `p.report`; `p` shows it. hardware: this machine as `ridge.plan` names it ('this',
    'h100'), for rooflines and MFU. `p.profiler.step()` ends a step of several. Raises ImportError without torch."""

    def __init__(self, hardware: str = "") -> None:
        import torch

        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._hardware = hardware
        self._report: Report | None = None
        self.profiler: Any = torch.profiler.profile(activities=activities, record_shapes=True, with_stack=True)

    def __enter__(self) -> "profile":
        self.profiler.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.profiler.__exit__(kind, error, trace)
        if kind is not None:
            return
        with tempfile.TemporaryDirectory(prefix="ridge-") as folder:
            path = os.path.join(folder, "trace.json")
            self.profiler.export_chrome_trace(path)
            options = {"hardware": self._hardware} if self._hardware else {}
            self._report = import_trace(path, **options)

    @property
    def report(self) -> Report:
        """The report, once the block has ended."""
        if self._report is None:
            raise ValueError("expected the end of the block that is profiled")
        return self._report

    @property
    def operations(self) -> Any:
        """The operations of a step, the longest first: a pandas DataFrame if pandas is installed, else a list of dicts."""
        return self.table("op")

    def table(self, by: str) -> Any:
        """The same added up by 'op', 'kind', 'scope' (the module) or 'phase'."""
        operations = self.report.data["runs"][0]["operations"]
        if f"by_{by}" not in operations:
            raise UsageError(f"[table] expected op, kind, scope or phase, got {by}")
        rows = [{name: each for name, each in row.items() if not isinstance(each, dict)} for row in operations[f"by_{by}"]]
        try:
            import pandas
        except ImportError:
            return rows
        return pandas.DataFrame(rows)

    def compare(self, other: "profile") -> Report:
        """The differences of another block's operations from this one's, as `ridge diff` finds them."""
        return self.report.compare(other.report)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    def __str__(self) -> str:
        return str(self.report)

    def __repr__(self) -> str:
        return "<ridge.profile: under way>" if self._report is None else str(self._report)
