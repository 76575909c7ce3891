"""What the tools say on standard output."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.checkpoints.build import Built
from pipeline.checkpoints.errors import listed, place, shown
from pipeline.checkpoints.hybrid import summary
from pipeline.checkpoints.register import Outcome
from pipeline.checkpoints.registration import Registration
from pipeline.checkpoints.undo import Undone


def registration_lines(outcome: Outcome) -> list[str]:
    """The finding, every change that was or would be made, and every warning."""
    found = outcome.registration
    state = "changed" if outcome.changed else "incomplete" if found.missing else "complete"
    folder = place(found.asked.folder)
    lines = [f"{folder}: {state}, {len(found.head)} head tensors in {_files(found)}"]
    lines += [f"  {change}" for change in _changes(outcome)]
    lines += [f"  warning: {warning}" for warning in (*_index_warnings(found), *outcome.warnings)]
    if outcome.changed:
        lines.append(f"  undo with: python -m pipeline.checkpoints register-mtp {folder} --undo")
    return lines


def undone_lines(undone: Undone) -> list[str]:
    """What undoing restored, removed and left."""
    lines = ["the index is as it was" if undone.restored else "the index had not been changed"]
    if undone.removed:
        lines.append(f"  removed what had been brought: {listed(undone.removed)}")
    if undone.left:
        lines.append(f"  left, since the file it came from is gone: {listed(undone.left)}")
    return lines


def build_lines(built: Built) -> list[str]:
    """What the hybrid consists of, what this run did, and what to know about the head."""
    lines = [f"{place(built.out)}: {built.state}", f"  {summary(built.plan)}"]
    if built.state != "planned":
        lines.append(f"  {len(built.written)} shards written, {len(built.kept)} verified and kept")
    lines += [f"  {shown(name)} brought ({how})" for name, how in built.brought.items()]
    if built.state == "complete" and built.head is None:
        lines.append("  there is no MTP head: nothing to register")
    if built.head is not None:
        lines += registration_lines(built.head)
    return lines


def _files(found: Registration) -> str:
    files = sorted({found.weight_map[name] for name in found.head})
    return listed(files) if files else "no file"


def _changes(outcome: Outcome) -> Iterable[str]:
    found = outcome.registration
    if found.add:
        yield f"add {len(found.add)} tensors to the index ({listed(found.add)})"
    if found.repoint:
        yield f"point {len(found.repoint)} tensors to another file ({listed(found.repoint)})"
    if found.stale_size or (found.index.digest is None and found.rewrites):
        was = "none" if found.index.total_size is None else found.index.total_size
        yield f"total_size: {was} -> {found.total_size}"
    for name, path in found.bring.items():
        how = f" ({outcome.brought[name]})" if name in outcome.brought else ""
        yield f"bring {shown(name)} from {place(path.parent)}{how}"


def _index_warnings(found: Registration) -> Iterable[str]:
    if found.lost:
        yield (
            f"{len(found.lost)} head tensors are in the index and in no file"
            f" ({listed(found.lost)}): download the checkpoint again"
        )
    if found.unheld:
        yield f"the index looks for {listed(found.unheld)} in files that do not hold them"
    if found.doubled:
        yield (
            f"two files of the index hold {listed(found.doubled)}: an engine reads whole files and"
            " keeps the one it reads last"
        )
