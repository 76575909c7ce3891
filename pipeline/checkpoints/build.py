"""Write a hybrid checkpoint shard by shard; the same command resumes, and verifies what is there.

Tensors stream from the two checkpoints into a new file a few megabytes at a time. Each shard is
read back and compared before the next one starts. The index is written once, with the head in it;
`config.json` comes last, since no engine starts without it: a folder that has one is complete.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import Field

from pipeline.checkpoints.errors import (
    FolderInUseError,
    NotACheckpointError,
    is_file,
    reading,
    shown,
    writing,
)
from pipeline.checkpoints.files import (
    bring,
    copy,
    is_temporary,
    locked,
    remove_stale,
    require_space,
    write_bytes,
)
from pipeline.checkpoints.head import CONFIG_NAME, head_names, read_config
from pipeline.checkpoints.hybrid import Hybrid, plan_hybrid
from pipeline.checkpoints.index import INDEX_NAME, Index, render_index, resolved
from pipeline.checkpoints.register import Outcome, examine
from pipeline.checkpoints.registration import Asked
from pipeline.checkpoints.shards import BuildNote, read_note, write_note, write_shards
from pipeline.spec import Record

_INFO_KEY = "_hybrid_quant_info"
# Weights in other formats and notes about the INT4 files do not describe the new checkpoint.
_NOT_COPIED = (".safetensors", ".bin", ".pt", ".pth", ".gguf", INDEX_NAME, CONFIG_NAME)


class Built(Record):
    """What a build did.

    Attributes:
        written: the shards of this run.
        kept: those of an earlier one, verified again.
        brought: how each file with the head came.
        head: the head as the finished checkpoint has it, None where there is none.
    """

    out: Path
    state: Literal["planned", "complete"]
    plan: Hybrid
    written: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    brought: dict[str, str] = Field(default_factory=dict)
    head: Outcome | None = None


def rehearse(int4: Path, fp8: Path, out: str, prefix: str) -> Built:
    """Plan a build and check that it would fit; nothing is written.

    Raises:
        PipelineError: the checkpoints do not go together, or there is not enough space.
    """
    plan = plan_hybrid(int4, fp8, prefix)
    folder = _checked_out(out, int4, fp8)
    there = next(parent for parent in (folder, *folder.parents) if parent.is_dir())
    require_space(there, _bytes_to_write(plan, folder, int4))
    return Built(out=folder, state="planned", plan=plan)


def build(int4: Path, fp8: Path, out: str, prefix: str) -> Built:
    """Build, resume or verify a hybrid checkpoint.

    Args:
        int4: the checkpoint whose experts, configuration and head are taken.
        fp8: the checkpoint whose dense tensors are taken.
        out: a new or empty folder, or one that an earlier run of the same build left.
        prefix: what the names of the head begin with.

    Raises:
        PipelineError: the checkpoints do not go together, or the machine refuses; the same command
            resumes.
    """
    plan = plan_hybrid(int4, fp8, prefix)
    folder = _checked_out(out, int4, fp8)
    config = _hybrid_config(int4, fp8, plan)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        note = _begin(folder, int4, plan)
        kept, written = write_shards(folder, plan, note)
        brought = {
            name: bring(header.path, folder / name)
            for name, header in plan.extras.items()
            if not is_file(folder / name)
        }
        _copy_others(int4, folder)
        _write_index(folder, plan)
        if not is_file(folder / CONFIG_NAME):
            write_bytes(folder / CONFIG_NAME, config)
        has_head = bool(head_names(plan.weight_map, prefix))
        head = examine(Asked(folder=folder, prefix=prefix)) if has_head else None
    return Built(
        out=folder,
        state="complete",
        plan=plan,
        written=written,
        kept=kept,
        brought=brought,
        head=head,
    )


def _checked_out(out: str, int4: Path, fp8: Path) -> Path:
    folder = resolved(out)
    if folder in (int4, fp8):
        raise FolderInUseError(folder, "it is one of the two checkpoints to read from")
    if folder.exists() and not folder.is_dir():
        raise FolderInUseError(folder, "it is not a folder")
    return folder


def _begin(folder: Path, int4: Path, plan: Hybrid) -> BuildNote:
    """The note of the build to resume, or a new one; nothing of other origin is touched."""
    note = read_note(folder)
    with reading(folder):
        present = [path.name for path in folder.iterdir() if not is_temporary(path)]
    if note is None and present:
        raise FolderInUseError(folder, f"it holds other files, such as {shown(min(present))}")
    if note is not None and note.sources != plan.sources:
        raise FolderInUseError(folder, "it was built from other files than those given now")
    remove_stale(folder)
    require_space(folder, _bytes_to_write(plan, folder, int4))
    if note is None:
        note = BuildNote(sources=plan.sources, shards={})
        write_note(folder, note)
    return note


def _bytes_to_write(plan: Hybrid, folder: Path, int4: Path) -> int:
    """What is not there yet; the head's files count, since they may have to be copied."""
    shards = [shard.size for shard in plan.shards if not is_file(folder / shard.name)]
    extras = [h.file_size for name, h in plan.extras.items() if not is_file(folder / name)]
    with reading(int4):
        others = [p.stat().st_size for p in _others(int4) if not is_file(folder / p.name)]
    return sum(shards) + sum(extras) + sum(others) + len(_index_text(plan))


def _others(int4: Path) -> list[Path]:
    """Tokenizer, templates and the like."""
    return sorted(
        path
        for path in int4.iterdir()
        if not path.name.startswith(".") and not path.name.endswith(_NOT_COPIED) and is_file(path)
    )


def _copy_others(int4: Path, folder: Path) -> None:
    with reading(int4):
        missing = [(p, p.stat().st_size) for p in _others(int4) if not is_file(folder / p.name)]
    for path, size in missing:
        # A copy even where a link would do: people edit these files in place.
        copy(path, size, folder / path.name)


def _index_text(plan: Hybrid) -> bytes:
    empty = Index(weight_map={}, total_size=None, rest={}, digest=None)
    return render_index(empty, plan.weight_map, plan.total_size)


def _write_index(folder: Path, plan: Hybrid) -> None:
    # Never without the head: a build that is interrupted and served cannot have lost it.
    if not is_file(folder / INDEX_NAME):
        write_bytes(folder / INDEX_NAME, _index_text(plan))


def _hybrid_config(int4: Path, fp8: Path, plan: Hybrid) -> bytes:
    config = read_config(int4)
    if config is None:
        raise NotACheckpointError(int4, f"there is no {CONFIG_NAME}")
    info = {
        "description": "INT4 experts, FP8 dense layers, the MTP head as published",
        "source_int4": _origin(int4),
        "source_fp8": _origin(fp8),
        "dense_tensors_from_fp8": plan.replaced,
        "scales_from_fp8": plan.scales,
        "needs": "an engine that loads FP8 layers inside an INT4 checkpoint",
    }
    text = json.dumps({**config, _INFO_KEY: info}, indent=2, ensure_ascii=False)
    return (text + "\n").encode()


def _origin(folder: Path) -> str:
    """A folder's name; in a hub cache the repository and the revision."""
    if folder.parent.name == "snapshots":
        return f"{folder.parents[1].name}@{folder.name}"
    return folder.name
