"""What one engine start is given: the options of a sweep, laid over each other."""

from __future__ import annotations

from typing import Literal

from pipeline.methods import speculative_config
from pipeline.spec import Drafter, MethodSpec, ModelSpec, Record, SweepConfig
from pipeline.values import EngineArgs, Speculative


class EngineConfig(Record):
    """Everything an engine start needs; two cells with equal ones share a start."""

    checkpoint: str
    revision: str | None
    trust_remote_code: bool
    speculative: Speculative | None
    engine_args: EngineArgs
    env: dict[str, str]
    preload: tuple[str, ...]
    engine_core: Literal["in_process", "own_process"]
    device: Literal["cpu", "cuda"]
    start_deadline_s: float
    token_deadline_s: float
    drop_caches: tuple[str, ...] = ()


def engine_config(
    config: SweepConfig, model: ModelSpec, method: MethodSpec, k: int
) -> EngineConfig:
    """The engine of one (model, method, K); a drafter's arguments win over the model's.

    Those win over the measurement's, and those over the platform's.
    """
    drafter = model.drafters.get(method.kind, Drafter())
    platform = config.platform
    return EngineConfig(
        checkpoint=drafter.target or model.checkpoint,
        revision=None if drafter.target else model.revision,
        trust_remote_code=model.trust_remote_code,
        speculative=speculative_config(method, k, model),
        engine_args={
            **platform.engine_args,
            **config.measure.engine_args,
            **model.engine_args,
            **drafter.engine_args,
        },
        env=platform.env,
        preload=platform.preload,
        engine_core=platform.engine_core,
        device=platform.device,
        start_deadline_s=platform.start_deadline_s,
        token_deadline_s=platform.token_deadline_s,
        drop_caches=platform.drop_caches,
    )
