"""Giving freed memory back to the system."""

from __future__ import annotations

import ctypes


def release() -> None:
    """Return the free pages inside the C heap; does nothing where the C library has no such call.

    Batches differ in shape from step to step, and the heap keeps the holes: without this a training
    grows by gigabytes in an hour.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
