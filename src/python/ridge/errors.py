# SPDX-License-Identifier: Apache-2.0
"""Ridge's exceptions. `.code` is the exit code that the command line has for the same fault."""
import builtins


class Error(Exception):
    """A fault outside Ridge, at run time. The message says what was expected and what was found."""

    code: int = 1


class UsageError(Error, ValueError):
    """An argument that cannot be: a value out of range, an unknown name, shapes that do not fit."""

    code: int = 2


class ModelError(Error):
    """A model, data or trace file that is missing, damaged or of an unknown kind."""

    code: int = 3


class MemoryError(Error, builtins.MemoryError):  # noqa: A001
    """Something that does not fit into the memory of the device."""

    code: int = 4


class DeviceError(Error):
    """A device that is missing or failed."""

    code: int = 5
