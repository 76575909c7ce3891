"""vLLM's own reading of engine configurations, in a process of its own.

    python -m tests.execution.vllm_arguments < configurations.json

Reads `{name: EngineConfig}`. The parser is given the `vllm serve` command of each, and the fields
of the class the speculative configuration; no model is read. Prints the fields of both classes and,
by name, what vLLM says against a configuration.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import shlex
import sys
import typing

from pydantic import ValidationError
from vllm.config.attention import AttentionConfig
from vllm.config.speculative import SpeculativeConfig, SpeculativeMethod
from vllm.engine.arg_utils import EngineArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser

from pipeline.plan import EngineConfig
from pipeline.serve import serve_command


def objections(parser: FlexibleArgumentParser, config: EngineConfig) -> list[str]:
    words = shlex.split(serve_command(config))
    heard = io.StringIO()
    try:
        with contextlib.redirect_stderr(heard):
            read = parser.parse_args(["--model", *words[words.index("serve") + 1 :]])
        EngineArgs.from_cli_args(read)
        AttentionConfig(backend=read.attention_backend)
        if config.speculative is not None:
            SpeculativeConfig(**config.speculative)
    except SystemExit:
        return [heard.getvalue().splitlines()[-1]]
    except ValidationError as error:
        # Without a place they are about fields in combination, which takes the models to judge.
        return [f"{found['loc']}: {found['msg']}" for found in error.errors() if found["loc"]]
    return []


def flat(literal: object) -> list[str]:
    return [text for arg in typing.get_args(literal) for text in (flat(arg) or [arg])]


def main() -> None:
    # It reads the target's and the drafter's own configuration.
    SpeculativeConfig.__post_init__ = lambda self: None
    configurations = json.load(sys.stdin)
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    found = {
        "engine": [f.name for f in dataclasses.fields(EngineArgs) if not f.name.startswith("_")],
        "speculative": list(SpeculativeConfig.__pydantic_fields__),
        "methods": flat(SpeculativeMethod),
        "objections": {
            name: objections(parser, EngineConfig.model_validate(config))
            for name, config in configurations.items()
        },
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
