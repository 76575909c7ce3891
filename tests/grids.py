"""Composed sweeps and hand-made ones for tests, and a user's own folder of options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.config import read_command_line
from pipeline.installed import InstalledVllm
from pipeline.plan import Plan, make_plan
from pipeline.prompts import Prompt, PromptSet, load_prompts
from pipeline.spec import SweepConfig

# What the golden plans are made for, whatever is installed.
VLLM = InstalledVllm(version="0.32.0")
PLATFORM: dict[str, Any] = {
    "name": "bench",
    "device": "cuda",
    "models": ["m0"],
    "engine_core": "in_process",
    "repeats": 1,
    "max_tokens": None,
    "start_deadline_s": 10,
    "token_deadline_s": 10,
    "pairing": "interleaved",
    "assume": {"engine_start_s": 1, "decode_tok_s": 10},
}
MEASURE: dict[str, Any] = {
    "repeats": 1,
    "warmup": ["one", "two"],
    "warmup_tokens": 4,
    "sampling": {},
}
METHODS: dict[str, dict[str, Any]] = {
    "none": {"name": "none", "kind": "none"},
    "ngram": {
        "name": "ngram",
        "kind": "ngram",
        "k": [4, 5],
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 4,
    },
    "mtp": {"name": "mtp", "kind": "mtp", "k": [1, 2]},
    "eagle3": {"name": "eagle3", "kind": "eagle3", "k": [3]},
    "dflash": {"name": "dflash", "kind": "dflash", "k": [7]},
}


def identify(reference: str, revision: str | None) -> str:
    """A checkpoint's identity by its name, so that no checkpoint has to be here."""
    return f"{reference}@{revision or 'unpinned'}"


def compose(*argv: str, platform: str = "cpu") -> SweepConfig:
    config = read_command_line(argv, lambda: platform)
    assert config is not None
    return config


def planned(*argv: str, platform: str = "cpu", vllm: InstalledVllm = VLLM) -> Plan:
    config = compose(*argv, platform=platform)
    prompts = {d.name: load_prompts(d, config.measure.max_tokens) for d in config.datasets}
    return make_plan(config, prompts, identify, vllm)


def user_folder(folder: Path, files: Mapping[str, str | bytes]) -> str:
    """Write a user's options, such as `{"model/mine": "name: mine…"}`, and name their flag."""
    for name, content in files.items():
        path = folder / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return f"--config-dir={folder}"


def model(name: str = "m0", **changes: Any) -> dict[str, Any]:
    return {"name": name, "checkpoint": f"maker/{name}", **changes}


def dataset(name: str) -> dict[str, Any]:
    return {"name": name, "source": {"kind": "bundled", "file": "chat.jsonl"}, "max_tokens": 16}


def sweep(
    models: list[dict[str, Any]] | None = None,
    methods: list[dict[str, Any]] | None = None,
    datasets: list[str] | None = None,
    *,
    k: object = None,
    concurrency: list[int] | None = None,
    **changes: Any,
) -> SweepConfig:
    """A sweep record made by hand; anything of it can be replaced by name."""
    models = models if models is not None else [model()]
    methods = methods if methods is not None else [METHODS["none"], METHODS["ngram"]]
    datasets = datasets if datasets is not None else ["d0"]
    whole: dict[str, Any] = {
        "name": "grid",
        "axes": {
            "model": [m["name"] for m in models],
            "method": [m["name"] for m in methods],
            "dataset": datasets,
            "k": k,
            "concurrency": concurrency or [1],
        },
        "models": models,
        "methods": methods,
        "datasets": [dataset(name) for name in datasets],
        "platform": PLATFORM,
        "measure": MEASURE,
        "tracking": {"enabled": False},
        "ray": {},
        "output_dir": "outputs",
    }
    return SweepConfig.model_validate({**whole, **changes})


def prompt_sets(config: SweepConfig) -> dict[str, PromptSet]:
    """One prompt for every dataset of a sweep, with a digest of its own, nothing read."""
    return {name: prompt_set(name) for name in config.axes.dataset}


def prompt_set(name: str, digest: str | None = None) -> PromptSet:
    prompt = Prompt(id="1", category="c", text=name, max_tokens=16)
    return PromptSet(name=name, system=None, prompts=(prompt,), digest=digest or f"digest-{name}")


def plan_of(config: SweepConfig) -> Plan:
    return make_plan(config, prompt_sets(config), identify)
