"""What the night before said and tonight does not: over, or not looked at. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import get_args

from jobs.findings import Finding
from jobs.night import Night
from jobs.signals import Signal, main_signal


def ended(
    key: str, night: Night, found: Collection[Finding], compared: Mapping[str, Collection[Signal]]
) -> bool:
    """Whether tonight looked at what the key is about, and it is no longer so.

    Args:
        key: of a finding that is none tonight, and of a kind that comes to an end.
        found: tonight's findings.
        compared: by label, the signals that were compared with earlier nights.
    """
    kind, signal, about = key_parts(key)
    cell = next((one for one in night.last if one.label == about), None)
    if cell is None or (cell.status != "OK" and kind != "missing"):
        return False
    if signal:
        doubted = {(f.signal, f.about) for f in found if f.kind == "unconfirmed"}
        return signal in compared[about] and (signal, about) not in doubted
    match kind:
        case "not lossless":
            return cell.lossless == "lossless"
        case "outputs":
            return bool(cell.outputs)
        case "no baseline" | "not comparable":
            return main_signal(cell) in compared[about]
        case _:  # it failed, did nothing or was missing, and tonight it is there
            return True


def key_parts(key: str) -> tuple[str, str, str]:
    """Kind, signal (empty without one) and what it is about, of a finding's key."""
    kind, _, rest = key.partition(":")
    first, _, about = rest.partition(":")
    return (kind, first, about) if first in get_args(Signal) else (kind, "", rest)
