"""Whether a checkpoint has an MTP head that an engine can reach: the question before a start."""

from __future__ import annotations

from pathlib import Path

from pipeline.checkpoints.advice import excluded
from pipeline.checkpoints.errors import is_file
from pipeline.checkpoints.head import DEFAULT_PREFIX, head_names, promise, read_config
from pipeline.checkpoints.header import Tensor
from pipeline.checkpoints.index import (
    INDEX_NAME,
    existing_folder,
    read_headers,
    read_index,
    weight_files,
)
from pipeline.spec import Record


class MtpState(Record):
    """What a checkpoint promises, holds and lets an engine find.

    Attributes:
        layers: MTP layers by `config.json`; None where there is no configuration.
        expected: tensors those come to, None where the layout is not one we can count.
        present: head tensors that the files hold.
        reachable: those of them that the index leads to. Without an index all of them: vLLM then
            reads every file.
        excluded: whether the quantisation config leaves the head unquantised; None where the
            checkpoint is not quantised, or its head is.
        sentence: the finding in words, with what cures it.
    """

    layers: int | None
    expected: int | None
    present: int
    reachable: int
    excluded: bool | None
    sentence: str

    @property
    def sound(self) -> bool:
        """True where an engine that is asked for MTP drafts with the whole head."""
        whole = self.present > 0 and self.reachable == self.present
        return whole and self.layers != 0 and self.excluded is not False


def mtp_state(folder: Path, prefix: str = DEFAULT_PREFIX) -> MtpState:
    """Read a checkpoint's headers, index and configuration, and nothing else.

    Args:
        folder: a checkpoint on disk.
        prefix: what the names of its head begin with.

    Raises:
        PipelineError: the folder, a header, the index or the configuration is not usable.
    """
    folder = existing_folder(str(folder))
    held = _held(folder, prefix)
    weight_map = read_index(folder).weight_map if is_file(folder / INDEX_NAME) else None
    reachable = [
        name
        for name, places in held.items()
        if weight_map is None or weight_map.get(name) in places
    ]
    config = read_config(folder)
    tensors = {name: next(iter(places.values())) for name, places in held.items()}
    promised = promise(config, prefix, held)
    state = MtpState(
        layers=promised.layers,
        expected=promised.tensors,
        present=len(held),
        reachable=len(reachable),
        excluded=excluded(config, tensors),
        sentence="",
    )
    return state.model_copy(update={"sentence": _sentence(state, folder)})


def _held(folder: Path, prefix: str) -> dict[str, dict[str, Tensor]]:
    """Head tensor → the files that hold it."""
    held: dict[str, dict[str, Tensor]] = {}
    for file, header in read_headers(folder, weight_files(folder)).items():
        for name in head_names(header.tensors, prefix):
            held.setdefault(name, {})[file] = header.tensors[name]
    return held


def _sentence(state: MtpState, folder: Path) -> str:
    cure = f"python -m pipeline.checkpoints register-mtp {folder}"
    if state.layers == 0:
        return "config.json promises no MTP layer: this model cannot draft with one"
    if not state.present:
        return f"no file holds an MTP head; bring one with {cure} source=FOLDER"
    if state.reachable < state.present:
        return (
            f"{state.present} MTP tensors are here, the index leads to {state.reachable} of them:"
            f" an engine would draft from nothing; {cure}"
        )
    if state.excluded is False:
        return (
            "the MTP head is not quantised and quantization_config does not exclude it: an engine"
            " would accept about 0 % of its drafts; add its modules to the excluded ones"
        )
    if state.expected not in (None, state.present):
        return f"{state.present} MTP tensors are reachable, config.json promises {state.expected}"
    return f"all {state.present} MTP tensors are reachable"
