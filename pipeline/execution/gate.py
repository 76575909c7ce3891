"""A drafter that would do nothing is found before its cells cost time: in the checkpoint before the
engine starts, and in the engine's log and its warm-up once it has.

After each cell its counts are judged again (`pipeline.analysis.engagement`).
"""

from __future__ import annotations

import re
from pathlib import Path

from pipeline.analysis.engagement import Judgement, probe
from pipeline.checkpoints.head import DEFAULT_PREFIX, read_config
from pipeline.checkpoints.inspect import mtp_state
from pipeline.methods import BASELINE
from pipeline.plan import EngineConfig
from pipeline.records import PassRecord

# MiMo's layout; a DeepSeek head is one more layer after the last.
MIMO_PREFIX = "model.mtp_layers."
_CONFIGURED = re.compile(r"Initializing a V1 LLM engine .*speculative_config=(\w+)")


def before_start(kind: str, config: EngineConfig) -> Judgement | None:
    """What the checkpoint on this node already shows to be wrong with a drafter.

    Raises:
        PipelineError: a header, the index or the configuration of the checkpoint is damaged.
    """
    folder = Path(config.checkpoint)
    if kind != "mtp" or not folder.is_dir():
        return None
    states = [mtp_state(folder, prefix) for prefix in _prefixes(folder)]
    best = max(states, key=lambda state: state.present)
    return None if best.sound else ("NOOP_NOT_CONFIGURED", best.sentence)


def after_start(kind: str, k: int, warm_up: PassRecord, log: str) -> Judgement | None:
    """What the engine's own log, and its first few drafts, show to be wrong."""
    said = _CONFIGURED.findall(log)
    if said and (said[-1] == "None") != (kind == BASELINE):
        status: Judgement = (
            ("SUSPECT", "the engine's log says that a drafter is configured for plain decoding")
            if kind == BASELINE
            else ("NOOP_NOT_CONFIGURED", f"the engine's log says that it started without {kind}")
        )
        return status
    return probe(kind, k, warm_up)


def _prefixes(folder: Path) -> tuple[str, ...]:
    layers = (read_config(folder) or {}).get("num_hidden_layers")
    after_last = (f"model.layers.{layers}.",) if isinstance(layers, int) else ()
    return (DEFAULT_PREFIX, MIMO_PREFIX, *after_last)
