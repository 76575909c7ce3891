from __future__ import annotations

import json
import shlex

from pipeline.plan import EngineConfig
from pipeline.serve import serve_command
from tests.factories import coordinates, plan

PLAIN = plan(coordinates("none", 0)).groups[0].engine


def words(**changes: object) -> list[str]:
    return shlex.split(serve_command(PLAIN.model_copy(update=changes)))


def test_a_plain_engine_is_one_short_command() -> None:
    assert serve_command(PLAIN) == "vllm serve tiny"


def test_switches_become_flags_and_their_negation() -> None:
    assert words(engine_args={"enforce_eager": True, "enable_prefix_caching": False})[3:] == [
        "--enforce-eager",
        "--no-enable-prefix-caching",
    ]


def test_an_unset_argument_is_left_to_vllm() -> None:
    assert words(engine_args={"quantization": None}) == ["vllm", "serve", "tiny"]


def test_speculative_configuration_survives_the_shell_as_json() -> None:
    config = {"method": "eagle3", "model": "/it's here", "num_speculative_tokens": 2}
    command = words(speculative=config)
    assert json.loads(command[command.index("--speculative-config") + 1]) == config


def test_nested_arguments_and_paths_with_spaces_are_quoted() -> None:
    command = words(checkpoint="/a b", engine_args={"hf_overrides": {"x": [1, "2 3"]}})
    assert command[2] == "/a b"
    assert json.loads(command[4]) == {"x": [1, "2 3"]}


def test_environment_revision_and_remote_code_are_part_of_it() -> None:
    command = words(env={"B": "2", "A": "x y"}, revision="abc", trust_remote_code=True)
    assert command[:4] == ["A=x y", "B=2", "vllm", "serve"]
    assert command[5:] == ["--revision", "abc", "--trust-remote-code"]


def test_how_it_was_measured_is_no_part_of_how_it_is_served() -> None:
    other = PLAIN.model_copy(update={"engine_core": "own_process", "start_deadline_s": 9.0})
    assert isinstance(other, EngineConfig)
    assert serve_command(other) == serve_command(PLAIN)
