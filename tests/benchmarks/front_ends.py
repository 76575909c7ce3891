"""Which of vLLM's front ends to measure with: `python -m tests.benchmarks.front_ends [method=none]`

Three of them run the same prompts on the same model in turn, several rounds, each in a process of
its own: the synchronous engine stepped by us with its core in the same process (`in_process`), the
same with the core in a process of its own (`own_process`), and the asynchronous engine that
`vllm serve` uses (`async`). Printed and kept are ratios to the asynchronous one, from one run:
engine start, decode speed, and how much the decode speed of one prompt varies from round to round.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pydantic import TypeAdapter

from pipeline.config import read_command_line
from pipeline.execution.engine_process import EngineProcess, engine_environment, find_libraries
from pipeline.execution.events import Tokenised, TokeniseJob
from pipeline.execution.messages import PassJob
from pipeline.execution.tokenise import tokenise
from pipeline.execution.worker import on_this_node
from pipeline.plan import EngineConfig, make_plan
from pipeline.prompts import load_prompts
from pipeline.sources import identity
from pipeline.spec import Record, Sampling

RESULT = Path(__file__).parent / "results" / "front_ends.json"
FRONT_ENDS = ("async", "in_process", "own_process")
ROUNDS = 3


class Run(Record):
    """One engine: seconds until ready, and decode tokens per second of each prompt."""

    start_s: float
    decode_tok_s: tuple[float, ...]


def main() -> None:
    config = read_command_line(
        [
            "+sweep=smoke",
            *(sys.argv[1:] or ["method=none"]),
            "dataset=echo",
            "dataset.limit=8",
            "measure.max_tokens=32",
        ],
        lambda: "cpu",
    )
    assert config is not None
    prompts = {d.name: load_prompts(d, config.measure.max_tokens) for d in config.datasets}
    job = TokeniseJob(
        model=config.models[0], prompt_sets=tuple(prompts.values()), measure=config.measure
    )
    tokens = tokenise(job)
    lines = []
    for group in make_plan(config, prompts, identity).groups:
        engine = on_this_node(group.engine)
        runs: dict[str, list[Run]] = {name: [] for name in FRONT_ENDS}
        for _ in range(ROUNDS):
            for name in FRONT_ENDS:
                runs[name].append(measure(name, engine, tokens))
                sys.stderr.write(f"{group.id} {name} {runs[name][-1]}\n")
        lines += [line(group.id, name, runs) for name in FRONT_ENDS]
    RESULT.write_text(json.dumps(lines, indent=1) + "\n")
    sys.stdout.write("\n".join(map(str, lines)) + "\n")


def line(group: str, name: str, runs: dict[str, list[Run]]) -> dict[str, object]:
    def median_start(which: str) -> float:
        return statistics.median(run.start_s for run in runs[which])

    def by_prompt(which: str) -> list[float]:
        rounds = [run.decode_tok_s for run in runs[which]]
        return [statistics.median(values) for values in zip(*rounds, strict=True)]

    ratios = [a / b for a, b in zip(by_prompt(name), by_prompt("async"), strict=True)]
    spread = [
        statistics.stdev(values) / statistics.mean(values)
        for values in zip(*(run.decode_tok_s for run in runs[name]), strict=True)
    ]
    return {
        "group": group,
        "front_end": name,
        "start_vs_async": round(median_start(name) / median_start("async"), 2),
        "decode_vs_async": round(statistics.geometric_mean(ratios), 3),
        "variation_between_rounds": round(statistics.median(spread), 3),
        "rounds": ROUNDS,
        "prompts": len(ratios),
    }


def measure(name: str, config: EngineConfig, tokens: Tokenised) -> Run:
    if name == "async":
        return asynchronous(config, tokens)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        engine = EngineProcess(
            config.model_copy(update={"engine_core": name}), Path(folder) / "log"
        )
        try:
            seconds = time.monotonic() - began
            for prompts, repeat in ((tokens.warmup, 0), (tokens.datasets["echo"], 1)):
                done = engine.run(
                    PassJob(repeat=repeat, prompts=prompts, concurrency=1, sampling=Sampling())
                )
        finally:
            engine.stop()
    rates = [
        (len(r.output_token_ids) - r.chunk_tokens[0]) / (r.chunk_s[-1] - r.chunk_s[0])
        for r in done.requests
    ]
    return Run(start_s=seconds, decode_tok_s=tuple(rates))


def asynchronous(config: EngineConfig, tokens: Tokenised) -> Run:
    """The asynchronous engine, in a process of its own with the same environment."""
    config = config.model_copy(update={"engine_core": "own_process"})
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.front_ends", "async"],
        input=json.dumps([config.model_dump(), tokens.model_dump()]),
        env=engine_environment(config, find_libraries(config.preload)),
        capture_output=True,
        text=True,
        check=True,
    )
    return Run.model_validate_json(done.stdout.splitlines()[-1])


async def run_async() -> None:
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.sampling_params import RequestOutputKind
    from vllm.v1.engine.async_llm import AsyncLLM

    given = json.loads(sys.stdin.read())
    config = EngineConfig.model_validate(given[0])
    tokens = TypeAdapter(Tokenised).validate_python(given[1])
    began = time.monotonic()
    engine = AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            model=config.checkpoint, speculative_config=config.speculative, **config.engine_args
        )
    )
    await engine.get_supported_tasks()
    seconds = time.monotonic() - began
    rates = []
    for prompt in (*tokens.warmup, *tokens.datasets["echo"]):
        params = SamplingParams(
            temperature=0, max_tokens=prompt.max_tokens, output_kind=RequestOutputKind.DELTA
        )
        request = {"prompt_token_ids": list(prompt.token_ids)}
        times, counts = [], []
        async for output in engine.generate(request, params, prompt.prompt_id):
            assert output.metrics is not None
            times.append(output.metrics.last_token_ts)
            counts.append(len(output.outputs[0].token_ids))
        rates.append(sum(counts[1:]) / (times[-1] - times[0]))
    engine.shutdown()
    run = Run(start_s=seconds, decode_tok_s=tuple(rates[len(tokens.warmup) :]))
    sys.stdout.write(f"\n{run.model_dump_json()}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:] == ["async"]:
        asyncio.run(run_async())
        os._exit(0)
    main()
