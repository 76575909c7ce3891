"""What the night before said and tonight does not: over, or not looked at. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import get_args

from jobs.findings import Finding
from jobs.night import Night
from jobs.signals import Signal, main_signal

# Tonight's findings of the same signal and cell by which an earlier one goes on, as itself or
# better known.
_GOES_ON_AS: Mapping[str, Collection[str]] = {
    "worse": ("worse", "drift", "unconfirmed"),
    "drift": ("drift", "worse", "unconfirmed"),
    "better": ("better", "unconfirmed"),
    "unconfirmed": ("unconfirmed", "worse", "drift", "better"),
}
# The same of a cell that is not OK, which has no signal.
_NOT_OK: Collection[str] = ("noop", "suspect", "failed", "unconfirmed")


def replaced(key: str, found: Collection[Finding]) -> bool:
    """Whether tonight's findings say what the key says, or how that stands by now."""
    kind, signal, about = key_parts(key)
    same = _GOES_ON_AS.get(kind, ()) if signal else _NOT_OK if kind in _NOT_OK else (kind,)
    return any((f.signal or "", f.about) == (signal, about) and f.kind in same for f in found)


def ended(key: str, night: Night, compared: Mapping[str, Collection[Signal]]) -> bool:
    """Whether tonight looked at what the key is about, and it is no longer so.

    Args:
        key: of a finding that nothing of tonight replaces, and of a kind that comes to an end.
        compared: by label, the signals that were compared with earlier nights.
    """
    kind, signal, about = key_parts(key)
    cell = next((one for one in night.last if one.label == about), None)
    if cell is None or (cell.status != "OK" and kind != "missing"):
        return False
    if signal:
        return signal in compared[about]
    match kind:
        case "not lossless":
            return cell.lossless == "lossless"
        case "outputs":
            return any(one.outputs for one in night.measurements(cell.fingerprint))
        case "no baseline" | "not comparable":
            return main_signal(cell) in compared[about]
        case _:  # it failed, did nothing or was missing, and tonight it is there
            return True


def key_parts(key: str) -> tuple[str, str, str]:
    """Kind, signal (empty without one) and what it is about, of a finding's key."""
    kind, _, rest = key.partition(":")
    first, _, about = rest.partition(":")
    return (kind, first, about) if first in get_args(Signal) else (kind, "", rest)
