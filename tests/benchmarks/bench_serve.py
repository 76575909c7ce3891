"""Our figures beside those of vLLM's own `bench serve`: `python -m tests.benchmarks.bench_serve`

One cell is measured by the pipeline's engine with its core in a process of its own, as a server has
it; then `vllm serve`, started by the command that the cell's record gives, is asked for the same
prompts by vLLM's benchmark; then the pipeline's engine again. Never are both loaded: of two cores
an engine that waits may take what the other one needs. For the same reason the server sends each
answer in one piece: a chunk of HTTP per step is work that the engine's cores do.

Kept are ratios of ours to vLLM's, from one run: throughput (medians over rounds), with every round
of either; acceptance by length and position.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path

from transformers import AutoTokenizer
from vllm.benchmarks import serve
from vllm.utils.argparse_utils import FlexibleArgumentParser

from pipeline.analysis.metrics import summarise
from pipeline.config import read_command_line
from pipeline.execution.engine_process import EngineProcess, engine_environment
from pipeline.execution.events import TokeniseJob
from pipeline.execution.messages import PassJob, PromptJob
from pipeline.execution.tokenise import tokenise
from pipeline.execution.worker import on_this_node
from pipeline.plan import EngineConfig, make_plan
from pipeline.prompts import load_prompts
from pipeline.records import PassRecord
from pipeline.serve import serve_command
from pipeline.sources import identity
from pipeline.spec import Sampling

RESULT = Path(__file__).parent / "results" / "bench_serve.json"
# Of ours at either end; vLLM's are as many as both.
ROUNDS = 4
OUTPUT_TOKENS = 48
# Steps between chunks of an answer: more than it has.
STREAM_INTERVAL = 10_000
METHOD, K = "mtp", 2
READY_S = 600


def main() -> None:
    config, prompts = planned()
    with tempfile.TemporaryDirectory() as folder:
        asked = write_prompts(Path(folder) / "prompts.jsonl", config, prompts)
        opening, preloaded = ours(config, prompts, Path(folder))
        with server(config, preloaded, Path(folder)) as port:
            told = [bench(config, asked, len(prompts), port) for _ in range(2 * ROUNDS + 1)]
        closing, _ = ours(config, prompts, Path(folder))
    result = json.dumps(compared(opening, told[1:], closing), indent=1) + "\n"
    RESULT.write_text(result)
    sys.stdout.write(result)


def planned() -> tuple[EngineConfig, tuple[PromptJob, ...]]:
    sweep = read_command_line(
        [
            "+sweep=smoke",
            f"method={METHOD}",
            f"sweep.axes.k=[{K}]",
            "dataset=json",
            "dataset.limit=8",
            f"measure.max_tokens={OUTPUT_TOKENS}",
        ],
        lambda: "cpu",
    )
    assert sweep is not None
    sets = {d.name: load_prompts(d, sweep.measure.max_tokens) for d in sweep.datasets}
    (group,) = make_plan(sweep, sets, identity).groups
    tokens = tokenise(
        TokeniseJob(model=sweep.models[0], prompt_sets=tuple(sets.values()), measure=sweep.measure)
    )
    engine = on_this_node(group.engine).model_copy(update={"engine_core": "own_process"})
    return engine, tokens.datasets["json"]


def write_prompts(path: Path, config: EngineConfig, prompts: tuple[PromptJob, ...]) -> Path:
    """The prompts as text; they are checked to give the same tokens again."""
    tokenizer = AutoTokenizer.from_pretrained(config.checkpoint)
    texts = [tokenizer.decode(prompt.token_ids) for prompt in prompts]
    assert [tuple(tokenizer.encode(t)) for t in texts] == [p.token_ids for p in prompts]
    path.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    return path


def ours(
    config: EngineConfig, prompts: tuple[PromptJob, ...], folder: Path
) -> tuple[list[PassRecord], tuple[str, ...]]:
    """Passes of a fresh engine, less a first one that warms up; and what it was preloaded with."""
    engine = EngineProcess(config, folder / "engine.log")
    try:
        passes = [
            engine.run(PassJob(repeat=repeat, prompts=prompts, concurrency=1, sampling=Sampling()))
            for repeat in range(ROUNDS + 1)
        ]
    finally:
        engine.stop()
    return passes[1:], engine.preloaded


@contextmanager
def server(config: EngineConfig, preloaded: tuple[str, ...], folder: Path) -> Iterator[int]:
    """`vllm serve` on a free port of the loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    command = f"{serve_command(config, preloaded)} --host 127.0.0.1 --port {port}"
    words = shlex.split(f"{command} --stream-interval {STREAM_INTERVAL}")
    arguments = words[words.index("vllm") + 1 :]
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "vllm.entrypoints.cli.main", *arguments],
            env=environment(config, preloaded, folder),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_until_ready(process, port)
        yield port
    finally:
        os.killpg(process.pid, 15)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)


def wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return
        except OSError:
            time.sleep(1)
    raise SystemExit("the server did not get ready")


def bench(
    config: EngineConfig, asked: Path, prompts: int, port: int
) -> dict[str, float | list[float]]:
    """What `vllm bench serve` says of the server, without a process and its imports each time."""
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "backend": "openai",
            "base-url": f"http://127.0.0.1:{port}",
            "endpoint": "/v1/completions",
            "model": config.checkpoint,
            "dataset-name": "custom",
            "dataset-path": str(asked),
            "custom-output-len": str(OUTPUT_TOKENS),
            "num-prompts": str(prompts),
            "max-concurrency": "1",
            "temperature": "0",
            "result-dir": folder,
            "result-filename": "result.json",
        }
        flags = ["--skip-chat-template", "--disable-shuffle", "--save-result"]
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        parser = FlexibleArgumentParser()
        serve.add_cli_args(parser)
        with redirect_stdout(io.StringIO()):
            serve.main(parser.parse_args([*words, *flags]))
        told: dict[str, float | list[float]] = json.loads(
            (Path(folder) / "result.json").read_text()
        )
        return told


def environment(config: EngineConfig, preloaded: tuple[str, ...], folder: Path) -> dict[str, str]:
    """The engine's own, and a name for the CPU build, whose command line asks for `vllm`'s."""
    named = folder / "names" / "vllm-0.32.0+cpu.dist-info"
    named.mkdir(parents=True, exist_ok=True)
    (named / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")
    env = engine_environment(config, preloaded)
    paths = [str(named.parent), os.environ.get("PYTHONPATH", "")]
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def compared(
    opening: list[PassRecord], told: list[dict[str, float | list[float]]], closing: list[PassRecord]
) -> dict[str, object]:
    """Ours over theirs; every round asks the same, so that acceptance is that of the last one."""
    own = summarise([*opening, *closing], K).metrics
    ends = [[speed(one) for one in passes] for passes in (opening, closing)]
    server = [number(one, "output_throughput") for one in told]
    theirs = partial(number, told[-1])
    positions = told[-1]["spec_decode_per_position_acceptance_rates"]
    assert isinstance(positions, list)
    typical = statistics.median(server)
    return {
        "method": METHOD,
        "k": K,
        "requests_a_round": len(opening[0].requests),
        "output_tok_s_ratio": round(statistics.median([*ends[0], *ends[1]]) / typical, 3),
        "rounds_of_ours": [[round(one / typical, 3) for one in end] for end in ends],
        "rounds_of_bench": [round(one / typical, 3) for one in server],
        "accept_length_ratio": round(
            own["accept/length"].value / theirs("spec_decode_acceptance_length"), 4
        ),
        "accept_rate_ratio": round(
            own["accept/rate"].value * 100 / theirs("spec_decode_acceptance_rate"), 4
        ),
        "accept_joint": [round(own[f"accept/joint_{i}"].value, 4) for i in range(K)],
        "accept_joint_bench": [round(position, 4) for position in positions],
    }


def speed(one: PassRecord) -> float:
    return summarise([one], K).metrics["speed/output_tok_s"].value


def number(told: dict[str, float | list[float]], name: str) -> float:
    value = told[name]
    assert isinstance(value, int | float), f"bench serve says {value} as {name}"
    return value


if __name__ == "__main__":
    main()
