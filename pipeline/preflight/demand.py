"""What an engine is about to ask of its host, in the terms that the checks compare. Pure."""

from __future__ import annotations

from typing import Literal

from pipeline.plan import EngineConfig
from pipeline.preflight.findings import GIB
from pipeline.spec import Record, Resources

# vLLM's own default.
_UTILISATION = 0.92
_KV_VARIABLE = "VLLM_CPU_KVCACHE_SPACE"


class Demand(Record):
    """An engine start's demand.

    Attributes:
        gpus: on each of `nodes` nodes.
        memory_utilisation: the share of a GPU's memory that vLLM will ask for.
        weights_bytes: the least that the weights take once loaded.
        kv_cache_bytes: what an engine without a GPU sets aside besides; 0 where it decides itself.
        bf16: whether it computes in that type.
        env: variables the engine is given on top of its environment.
    """

    device: Literal["cpu", "cuda"]
    gpus: int
    nodes: int
    memory_utilisation: float
    weights_bytes: int
    kv_cache_bytes: int
    bf16: bool
    env: dict[str, str]


def demand_of(engine: EngineConfig, resources: Resources, weights_bytes: int) -> Demand:
    """The demand of one engine; resources of a plan for machines without a GPU count none."""
    arguments = engine.engine_args
    share = arguments.get("gpu_memory_utilization", _UTILISATION)
    cache = arguments.get("kv_cache_memory_bytes")
    return Demand(
        device=engine.device,
        gpus=max(1, resources.gpus) if engine.device == "cuda" else 0,
        nodes=resources.nodes,
        memory_utilisation=share if isinstance(share, int | float) else _UTILISATION,
        weights_bytes=weights_bytes,
        kv_cache_bytes=cache if isinstance(cache, int) else _kv_space(engine.env),
        bf16=arguments.get("dtype") == "bfloat16",
        env=engine.env,
    )


def _kv_space(env: dict[str, str]) -> int:
    text = env.get(_KV_VARIABLE, "")
    return int(text) * GIB if text.isdecimal() else 0
