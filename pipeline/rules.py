"""What is known to go wrong between a method, a version of vLLM and a GPU, told in the plan.

Each rule is a pure function of one engine start and answers with a sentence or nothing. `PRUNES`
keep a start out of the plan, since it would fail or measure nothing after minutes of loading;
`WARNINGS` let it run and are printed beside it. A rule about versions holds only where the version
is known. To add one: a function here, in one of the two lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pydantic import JsonValue

from pipeline.engine_config import EngineConfig
from pipeline.installed import InstalledVllm
from pipeline.spec import Record

# Attention that sees the whole block is computed by other kernels than ordinary attention.
_BLOCK_DRAFTERS = ("dflash",)
_DFLASH_UPSTREAM = (0, 22)
_SPEC_ATTENTION_FREE = (0, 20)
_FLASHINFER_BLOCKS_RIGHT = (0, 26)


class Start(Record):
    """One engine start as the rules see it.

    Attributes:
        engine: what it is given.
        compute_capability: the GPU's, such as 12.1; None where it is not known or there is none.
        vllm: the version it will run on; None where it is not known.
    """

    engine: EngineConfig
    compute_capability: str | None
    vllm: InstalledVllm | None

    @property
    def method(self) -> JsonValue:
        """vLLM's name of the method; None for plain decoding."""
        return (self.engine.speculative or {}).get("method")

    @property
    def drafts_blocks(self) -> bool:
        """Whether the drafter attends to a whole block at once."""
        return self.method in _BLOCK_DRAFTERS

    @property
    def draft_attention(self) -> JsonValue:
        """The attention backend asked for the drafter, or None: it takes none from the target."""
        return (self.engine.speculative or {}).get("attention_backend")

    def on_sm(self, *majors: int) -> bool:
        """Whether the GPU is known to be of one of these generations."""
        return (self.compute_capability or "").partition(".")[0] in map(str, majors)

    def older_than(self, *release: int) -> bool:
        """Whether vLLM is known to be older than a release."""
        return self.vllm is not None and self.vllm.older_than(*release)


Rule = Callable[[Start], str | None]


def why_not_here(start: Start) -> str | None:
    """The first reason why a start cannot work, or None."""
    return next(iter(_answers(PRUNES, start)), None)


def warnings(start: Start) -> list[str]:
    """What to know about a start that can."""
    return _answers(WARNINGS, start)


def _answers(rules: Iterable[Rule], start: Start) -> list[str]:
    return [sentence for rule in rules if (sentence := rule(start)) is not None]


# --- versions ---------------------------------------------------------------------------------


def _unknown_method(start: Start) -> str | None:
    if start.vllm is None or start.method is None:
        return None
    known = start.vllm.methods
    if known is not None and start.method not in known:
        since = ", upstream has it from 0.22 on" if start.method == "dflash" else ""
        return f"vLLM {start.vllm.version} has no method {start.method}{since}"
    if known is None and start.method == "dflash" and start.older_than(*_DFLASH_UPSTREAM):
        return f"vLLM {start.vllm.version} has no method dflash, upstream has it from 0.22 on"
    return None


def _early_dflash(start: Start) -> str | None:
    if start.method != "dflash" or not start.older_than(*_DFLASH_UPSTREAM):
        return None
    assert start.vllm is not None
    return (
        f"dflash in vLLM {start.vllm.version} is that build's own, upstream has it from 0.22 on:"
        " compare its numbers with those of the same build only"
    )


def _mtp_backend(start: Start) -> str | None:
    backend = start.engine.engine_args.get("attention_backend")
    needs = start.method == "mtp" and start.engine.device == "cuda"
    if not needs or backend == "FLASHINFER" or not start.older_than(*_SPEC_ATTENTION_FREE):
        return None
    assert start.vllm is not None
    return (
        f"mtp in vLLM {start.vllm.version} needs the FlashInfer backend"
        f" ({backend or 'none'} is set): set engine_args.attention_backend=FLASHINFER"
    )


def _unknown_version(start: Start) -> str | None:
    if start.engine.device != "cuda" or (start.vllm and start.vllm.release):
        return None
    what = f"vLLM {start.vllm.version} carries no release" if start.vllm else "vLLM is not here"
    return f"{what}: what is known about its versions is not checked in this plan"


# --- GPUs of generation SM12x, the GB10's -----------------------------------------------------


def _flash_attention_for_blocks(start: Start) -> str | None:
    if not start.drafts_blocks or not start.on_sm(12) or start.draft_attention is not None:
        return None
    return (
        f"vLLM chooses FLASH_ATTN for a {start.method} drafter, which crashes on"
        f" SM{_sm(start)} once the model has loaded: set the drafter's"
        " speculative.attention_backend, for example to FLASHINFER"
    )


def _flash_attention_asked_for(start: Start) -> str | None:
    if not start.drafts_blocks or not start.on_sm(12) or start.draft_attention != "FLASH_ATTN":
        return None
    return f"FLASH_ATTN for a {start.method} drafter is known to crash on SM{_sm(start)}"


def _quantised_cache_for_blocks(start: Start) -> str | None:
    caches = (
        start.engine.engine_args.get("kv_cache_dtype"),
        (start.engine.speculative or {}).get("kv_cache_dtype"),
    )
    small = [c for c in caches if isinstance(c, str) and c.startswith(("fp8", "nvfp4", "int"))]
    if not small or not start.drafts_blocks or not start.on_sm(12):
        return None
    return (
        f"{start.method} with a {small[0]} KV cache is wrong or crashes on SM{_sm(start)}:"
        " set kv_cache_dtype=auto"
    )


def _flashinfer_for_blocks(start: Start) -> str | None:
    asked = start.draft_attention == "FLASHINFER" and start.drafts_blocks
    if not asked or not start.on_sm(10, 12) or not start.older_than(*_FLASHINFER_BLOCKS_RIGHT):
        return None
    assert start.vllm is not None
    return (
        f"{start.method} drafts through FlashInfer in vLLM {start.vllm.version} were seen to be"
        " accepted at nearly 0 % on Blackwell, repaired by 0.26: expect NOOP_NO_ACCEPT"
    )


def _sm(start: Start) -> str:
    return (start.compute_capability or "").replace(".", "")


PRUNES: tuple[Rule, ...] = (
    _unknown_method,
    _mtp_backend,
    _flash_attention_for_blocks,
    _quantised_cache_for_blocks,
)
WARNINGS: tuple[Rule, ...] = (
    _unknown_version,
    _early_dflash,
    _flash_attention_asked_for,
    _flashinfer_for_blocks,
)
