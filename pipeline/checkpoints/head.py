"""What a configuration promises about an MTP head, and how the head lies in the files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from pipeline.checkpoints import strictjson
from pipeline.checkpoints.errors import ConflictError, is_file
from pipeline.checkpoints.header import FLOAT_DTYPES, Header, Tensor
from pipeline.spec import Record

CONFIG_NAME = "config.json"
DEFAULT_PREFIX = "mtp."
# Where publishers put a head, the usual place first.
EXTRA_NAMES = ("model_extra_tensors.safetensors", "extra_weights.safetensors", "mtp*.safetensors")
_LAYER_KEYS = ("mtp_num_hidden_layers", "num_nextn_predict_layers")
_EXPERT_KEYS = ("num_experts", "n_routed_experts", "num_local_experts")
# One projection in, one norm out and two norms in front, whatever the number of layers.
_SHARED_TENSORS = 4
# Per layer: attention 4 + 2 norms, 2 layer norms; then a router, a shared expert (3) and its gate …
_MOE_LAYER_TENSORS = 13
# … or one gated unit of three matrices.
_DENSE_LAYER_TENSORS = 11
_MATRICES_PER_EXPERT = 3
# All experts of a layer in two tensors, as some publishers store them.
_FUSED_EXPERTS = (".experts.gate_up_proj", ".experts.down_proj")


class Promise(Record):
    """What `config.json` says: layers of the head, and the tensors they come to.

    Attributes:
        layers: 0 where the model has no head, None where there is no configuration.
        tensors: None where the layout is not one whose tensors we can count.
    """

    layers: int | None
    tensors: int | None


def read_config(folder: Path) -> dict[str, object] | None:
    """The folder's `config.json`, or None where it has none.

    Raises:
        DamagedJsonError, UnreadableFileError: it is there and cannot be used.
    """
    path = folder / CONFIG_NAME
    return strictjson.read(path)[1] if is_file(path) else None


def promise(config: Mapping[str, object] | None, prefix: str, head: Iterable[str] = ()) -> Promise:
    """What the configuration promises for a head of these names.

    Args:
        config: the model's configuration, or None.
        prefix: what the head's names begin with; only the layout of `mtp.` is one we can count.
        head: the names that were found, which tell whether experts are stored one by one.
    """
    if config is None:
        return Promise(layers=None, tensors=None)
    sections = _sections(config)
    layers = _first(sections, _LAYER_KEYS) or 0
    if not layers or prefix != DEFAULT_PREFIX:
        return Promise(layers=layers, tensors=None)
    experts = _first(sections, _EXPERT_KEYS)
    if not experts:
        return Promise(layers=layers, tensors=_SHARED_TENSORS + layers * _DENSE_LAYER_TENSORS)
    fused = any(name.endswith(_FUSED_EXPERTS) for name in head)
    per_layer = len(_FUSED_EXPERTS) if fused else experts * _MATRICES_PER_EXPERT
    return Promise(
        layers=layers, tensors=_SHARED_TENSORS + layers * (_MOE_LAYER_TENSORS + per_layer)
    )


def _sections(config: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The language model's own part first: a model that also sees has it one level down."""
    text = config.get("text_config")
    return [text, config] if isinstance(text, dict) else [config]


def _first(sections: Sequence[Mapping[str, object]], keys: Sequence[str]) -> int | None:
    for section in sections:
        for key in keys:
            value = section.get(key)
            if strictjson.is_count(value) and isinstance(value, int):
                return value
    return None


def head_names(names: Iterable[str], prefix: str) -> list[str]:
    """Those of a head, in order."""
    return sorted(name for name in names if name.startswith(prefix))


def candidates(files: Sequence[str]) -> list[list[str]]:
    """Groups of files that may carry the head, likeliest first."""
    groups = ([file for file in files if fnmatchcase(file, name)] for name in EXTRA_NAMES)
    return [group for group in groups if group]


def holders(headers: Mapping[str, Header], prefix: str) -> dict[str, str]:
    """Head tensor → the one of these files that holds it.

    Raises:
        ConflictError: two of the files hold the same one.
    """
    found: dict[str, str] = {}
    for file, header in headers.items():
        names = head_names(header.tensors, prefix)
        twice = [name for name in names if name in found]
        if twice:
            raise ConflictError(
                twice, found[twice[0]], file, "say which file counts with extra=FILE"
            )
        found.update(dict.fromkeys(names, file))
    return found


def is_unquantised(tensors: Iterable[Tensor]) -> bool:
    """True for a head whose tensors are all plain floating point numbers."""
    return all(tensor.dtype in FLOAT_DTYPES for tensor in tensors)
