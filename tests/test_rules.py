import pytest
from pydantic import JsonValue

from pipeline.installed import Argument, InstalledVllm
from pipeline.rules import Start, warnings, why_not_here
from tests.factories import coordinates, plan

PLAIN = plan(coordinates("none", 0)).groups[0].engine
SPARK, HOPPER = "12.1", "9.0"
DFLASH: dict[str, JsonValue] = {
    "method": "dflash",
    "num_speculative_tokens": 15,
    "model": "maker/head",
}
MTP: dict[str, JsonValue] = {"method": "mtp", "num_speculative_tokens": 2}
NGRAM: dict[str, JsonValue] = {"method": "ngram", "num_speculative_tokens": 4}
ALL_METHODS = ("ngram", "mtp", "eagle3", "dflash")


def vllm(version: str, *methods: str) -> InstalledVllm:
    known = Argument(kinds=frozenset({"str"}), choices=frozenset(methods))
    return InstalledVllm(version=version, speculative={"method": known} if methods else {})


def start(
    speculative: dict[str, JsonValue] | None,
    version: InstalledVllm | None,
    gpu: str | None = SPARK,
    device: str = "cuda",
    **arguments: JsonValue,
) -> Start:
    engine = PLAIN.model_copy(
        update={"speculative": speculative, "engine_args": arguments, "device": device}
    )
    return Start(engine=engine, compute_capability=gpu, vllm=version)


def with_backend(name: str, **more: JsonValue) -> dict[str, JsonValue]:
    return {**DFLASH, "attention_backend": name, **more}


NEW = vllm("0.32.0", *ALL_METHODS)
OLD = vllm("0.19.1", "ngram", "mtp", "eagle3")
PRUNED: dict[str, tuple[Start, str]] = {
    "dflash where vLLM's own sources do not know it": (
        start(with_backend("FLASHINFER"), OLD),
        "vLLM 0.19.1 has no method dflash, upstream has it from 0.22 on",
    ),
    "dflash of an old version whose sources cannot be read": (
        start(with_backend("FLASHINFER"), vllm("0.21.0")),
        "vLLM 0.21.0 has no method dflash",
    ),
    "any method that the installed vLLM does not know": (
        start({"method": "eagle3"}, vllm("0.32.0", "ngram")),
        "vLLM 0.32.0 has no method eagle3",
    ),
    "mtp on another backend than FlashInfer up to 0.19": (
        start(MTP, OLD, attention_backend="FLASH_ATTN"),
        "needs the FlashInfer backend (FLASH_ATTN is set): set engine_args.attention_backend",
    ),
    "mtp on no chosen backend up to 0.19": (start(MTP, OLD), "(none is set)"),
    "dflash on a Spark with the drafter's backend left to vLLM": (
        start(DFLASH, NEW),
        "crashes on SM121 once the model has loaded: set the drafter's"
        " speculative.attention_backend",
    ),
    "the same where the version is not known": (start(DFLASH, None), "crashes on SM121"),
    "dflash on a Spark with an fp8 cache": (
        start(with_backend("FLASHINFER"), NEW, kv_cache_dtype="fp8_e4m3"),
        "dflash with a fp8_e4m3 KV cache is wrong or crashes on SM121: set kv_cache_dtype=auto",
    ),
    "dflash on a Spark with an fp8 cache of the drafter's own": (
        start(with_backend("FLASHINFER", kv_cache_dtype="fp8"), NEW),
        "with a fp8 KV cache",
    ),
}
WARNED: dict[str, tuple[Start, str]] = {
    "dflash in an old build that has it": (
        start(with_backend("TRITON_ATTN"), vllm("0.19.1", *ALL_METHODS)),
        "dflash in vLLM 0.19.1 is that build's own",
    ),
    "dflash through FlashInfer on Blackwell before it was repaired": (
        start(with_backend("FLASHINFER"), vllm("0.24.0", *ALL_METHODS)),
        "accepted at nearly 0 % on Blackwell",
    ),
    "dflash on FLASH_ATTN that somebody asked for": (
        start(with_backend("FLASH_ATTN"), NEW),
        "FLASH_ATTN for a dflash drafter is known to crash on SM121",
    ),
    "a GPU whose vLLM is not known": (start(None, None), "vLLM is not here"),
    "a development build without a release": (
        start(NGRAM, vllm("0.1.dev20073+g8e685d198", *ALL_METHODS)),
        "vLLM 0.1.dev20073+g8e685d198 carries no release",
    ),
}
FINE: dict[str, Start] = {
    "plain decoding on an old version": start(None, OLD),
    "n-gram on an old version": start(NGRAM, OLD),
    "mtp on FlashInfer up to 0.19": start(MTP, OLD, attention_backend="FLASHINFER"),
    "mtp on any backend later": start(MTP, NEW, attention_backend="FLASH_ATTN"),
    "mtp with an fp8 cache on a Spark": start(MTP, NEW, kv_cache_dtype="fp8"),
    "dflash on a Spark with its own backend": start(with_backend("FLASHINFER"), NEW),
    "dflash on a Hopper with nothing set": start(DFLASH, NEW, HOPPER, kv_cache_dtype="fp8"),
    "dflash on a GPU that is not known": start(DFLASH, NEW, None),
    "dflash on a CPU": start(DFLASH, vllm("0.32.0+cpu", *ALL_METHODS), None, "cpu"),
    "dflash on a CPU whose vLLM is not known": start(DFLASH, None, None, "cpu"),
}


@pytest.mark.parametrize("case", PRUNED.values(), ids=PRUNED)
def test_a_start_that_cannot_work_is_kept_out_with_the_reason(case: tuple[Start, str]) -> None:
    at, sentence = case
    assert sentence in (why_not_here(at) or "")


@pytest.mark.parametrize("case", WARNED.values(), ids=WARNED)
def test_a_start_that_may_disappoint_is_told_of_and_runs(case: tuple[Start, str]) -> None:
    at, sentence = case
    assert why_not_here(at) is None
    (told,) = warnings(at)
    assert sentence in told


@pytest.mark.parametrize("at", FINE.values(), ids=FINE)
def test_nothing_is_said_of_what_works(at: Start) -> None:
    assert why_not_here(at) is None
    assert warnings(at) == []


def test_a_rule_speaks_one_line() -> None:
    told = [why_not_here(at) or "" for at, _ in PRUNED.values()]
    told += [text for at, _ in WARNED.values() for text in warnings(at)]
    assert [text for text in told if "\n" in text or len(text) > 250] == []
