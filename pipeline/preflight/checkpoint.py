"""The checkpoints: here, readable, whole, and with the head that a method drafts from.

Reads headers, index and configuration of what lies on this node, never the weights themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pipeline.checkpoints.errors import UnreadableFileError, is_file, listed, reading
from pipeline.checkpoints.head import DEFAULT_PREFIX, read_config
from pipeline.checkpoints.header import Header
from pipeline.checkpoints.index import (
    INDEX_NAME,
    SINGLE_NAME,
    read_headers,
    read_index,
    resolved,
    weight_files,
)
from pipeline.checkpoints.inspect import mtp_state
from pipeline.errors import PipelineError
from pipeline.plan import EngineConfig
from pipeline.preflight.findings import Finding, from_error, gib, ok, stop, warn
from pipeline.sources import resolve
from pipeline.spec import Record

_OTHER_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.gguf")
# Both are loaded at two bytes a number at most, whatever the file holds.
_WIDE = ("F32", "F64")
_FAILS = "the engine would fail, after minutes of loading or at once"
# Of families whose heads have other names than Qwen's.
_FURTHER_LAYERS = "num_nextn_predict_layers"


class Examined(Record):
    """What was found, and the least that the weights take once loaded."""

    findings: tuple[Finding, ...]
    weights_bytes: int = 0


def examine(engine: EngineConfig) -> Examined:
    """Look at an engine's target and drafter."""
    speculative = engine.speculative or {}
    mtp = speculative.get("method") == "mtp"
    parts = [_examine("checkpoint", engine.checkpoint, engine.revision, mtp=mtp)]
    drafter = speculative.get("model")
    if isinstance(drafter, str):
        revision = speculative.get("revision")
        parts.append(
            _examine("drafter", drafter, revision if isinstance(revision, str) else None, mtp=False)
        )
    return Examined(
        findings=tuple(finding for part in parts for finding in part.findings),
        weights_bytes=sum(part.weights_bytes for part in parts),
    )


def _examine(check: str, reference: str, revision: str | None, *, mtp: bool) -> Examined:
    try:
        folder = _folder(reference, revision)
        if folder is None:
            return Examined(findings=(_not_here(check, reference, revision),))
        config = read_config(folder)
        headers = _headers(folder)
        if not headers:
            return Examined(findings=(_no_safetensors(check, folder),))
        findings = [_whole(check, folder, headers)]
        if mtp:
            findings.append(_head(folder, config, headers))
    except PipelineError as error:
        return Examined(findings=(from_error(check, error, _FAILS),))
    return Examined(findings=tuple(findings), weights_bytes=_loaded_bytes(headers.values()))


def _folder(reference: str, revision: str | None) -> Path | None:
    """Where a checkpoint lies on this node; None for one that a hub has and this node has not.

    Raises:
        PipelineError: the reference leads nowhere.
    """
    if reference.startswith(("/", "~", ".")) and not resolved(reference).is_dir():
        raise _NoFolderError(resolved(reference))
    place = Path(resolve(reference))
    if place.is_dir():
        return place
    # Only for hub ids, since it takes more than half a second to import.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(reference, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    except OSError as error:
        raise UnreadableFileError(place, error) from error


def _not_here(check: str, reference: str, revision: str | None) -> Finding:
    pinned = f" --revision {revision}" if revision else ""
    what = f"{reference} is not in this node's Hugging Face cache"
    cure = f"hf download {reference}{pinned}"
    if os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0"):
        return stop(check, what, "HF_HUB_OFFLINE is set: the engine could not fetch it", cure)
    why = "the engine would download it first, against the deadline for its start"
    return warn(check, what, why, cure)


def _headers(folder: Path) -> dict[str, Header]:
    """Headers of the files an engine will read; none where the weights are in another format."""
    if is_file(folder / INDEX_NAME) or is_file(folder / SINGLE_NAME):
        index = read_index(folder)
        headers = read_headers(folder, index.files)
        lost = [
            name for name, file in index.weight_map.items() if name not in headers[file].tensors
        ]
        if lost:
            raise _LostTensorsError(folder, lost)
        return headers
    return read_headers(folder, weight_files(folder))


class _NoFolderError(PipelineError):
    def __init__(self, folder: Path) -> None:
        super().__init__(
            "there is no such folder",
            where=str(folder),
            remedy=f"hf download ORGANISATION/NAME --local-dir {folder}, or, for a hybrid,"
            f" python -m pipeline.checkpoints build-hybrid int4=FOLDER fp8=FOLDER out={folder}",
        )


class _LostTensorsError(PipelineError):
    def __init__(self, folder: Path, names: list[str]) -> None:
        super().__init__(
            f"the index looks for {len(names)} tensors in files that do not hold them"
            f" ({listed(names)})",
            where=str(folder / INDEX_NAME),
            remedy="download the checkpoint again, index and weights of one revision",
        )


def _no_safetensors(check: str, folder: Path) -> Finding:
    with reading(folder):
        others = sorted(path.name for form in _OTHER_WEIGHTS for path in folder.glob(form))
    if others:
        what = f"{folder} holds {listed(others)}, no safetensors"
        why = "only an engine can tell whether these files are whole"
        return warn(check, what, why, "prefer a revision with safetensors where there is one")
    cure = f"finish the download into {folder}"
    return stop(check, f"{folder} holds no weights", _FAILS, cure)


def _whole(check: str, folder: Path, headers: dict[str, Header]) -> Finding:
    size = sum(header.file_size for header in headers.values())
    tensors = sum(len(header.tensors) for header in headers.values())
    return ok(check, f"{folder}: {tensors} tensors in {len(headers)} whole files, {gib(size)}")


def _head(folder: Path, config: dict[str, object] | None, headers: dict[str, Header]) -> Finding:
    """The head a method `mtp` drafts with, under whichever of the known names it has here."""
    others = read_headers(folder, set(weight_files(folder)) - set(headers))
    names = [name for h in (headers, others) for header in h.values() for name in header.tensors]
    known = (DEFAULT_PREFIX, *_further_prefixes(config or {}))
    prefix = next((p for p in known if any(n.startswith(p) for n in names)), DEFAULT_PREFIX)
    state = mtp_state(folder, prefix)
    if state.sound:
        return ok("mtp_head", state.sentence)
    if not state.present and _FURTHER_LAYERS in (config or {}):
        what = f"no tensor of {folder} has a name that is known to be of an MTP head"
        why = "whether the engine finds one shows only once it drafts"
        return warn("mtp_head", what, why, "read accept/length of the first cell")
    what, _, cure = state.sentence.partition("; ")
    option = f" prefix={prefix}" if prefix != DEFAULT_PREFIX and "register-mtp" in cure else ""
    why = "nothing fails: the engine drafts with an untrained head, and its drafts are refused"
    return stop("mtp_head", what, why, cure + option or "leave mtp out: sweep.axes.method=[…]")


def _further_prefixes(config: dict[str, object]) -> tuple[str, ...]:
    """Names of other heads: MiMo's, and those of families that append it as one more layer."""
    return "model.mtp_layers.", f"model.layers.{config.get('num_hidden_layers')}."


def _loaded_bytes(headers: Iterable[Header]) -> int:
    tensors = [tensor for header in headers for tensor in header.tensors.values()]
    return sum(
        t.size * 2 // (8 if t.dtype == "F64" else 4) if t.dtype in _WIDE else t.size
        for t in tensors
    )
