from pathlib import Path

import pytest
from pydantic import JsonValue

from pipeline.installed import Argument, InstalledVllm, installed_vllm, read_arguments

SOURCE = '''
from somewhere import Elsewhere

Own = Literal["a", "b"]
Wider = Literal["c", Own]
Loop = Literal["x", "Loop"]

@config
class Arguments:
    """Of a made-up engine."""

    whole: int = Other.whole
    share: float = 0.9
    switch: bool | None = None
    name: str | list[str] | None = get_field(Other, "name")
    choice: Wider = "a"
    choice_or_text: str | Own = "a"
    old_style: Optional[Union[int, Own]] = None
    quoted: "dict[str, Any] | None" = None
    several: list[tuple[int, int]] | None = None
    level: Literal[0, 1] = 0
    wrapped: SkipValidation[str] = None
    foreign: Elsewhere | int = 3
    circular: Loop = "x"
    _private: int = 1
    not_annotated = 2

    def method(self) -> None: ...
'''


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Argument]:
    path = tmp_path_factory.mktemp("vllm") / "arguments.py"
    path.write_text(SOURCE)
    return read_arguments(path, "Arguments")


def test_every_public_field_is_known_by_name(read: dict[str, Argument]) -> None:
    assert not {"_private", "not_annotated", "method"} & set(read)
    assert len(read) == 13


@pytest.mark.parametrize(
    ("name", "takes", "refuses"),
    [
        ("whole", [0, -1], [True, 1.5, "1", [1]]),
        ("share", [0.5, 1], [True, "0.5"]),
        ("switch", [True], [1, "true"]),
        ("name", ["x", ["x", "y"]], [1, {"x": 1}]),
        ("choice", ["a", "b", "c"], ["d", 1, True]),
        ("choice_or_text", ["a", "anything"], [1]),
        ("old_style", [3, "b"], ["c", 1.5]),
        ("quoted", [{"x": 1}], [[1], "x"]),
        ("several", [[[1, 2]]], [1, {"x": 1}]),
        ("level", [0, 1], ["x", True]),
        ("wrapped", ["x"], [1]),
        ("foreign", [3, "x", [1], {"x": 1}, True], []),
        ("circular", ["x", "Loop"], ["y"]),
    ],
)
def test_a_value_is_taken_by_kind_and_choice(
    read: dict[str, Argument], name: str, takes: list[JsonValue], refuses: list[JsonValue]
) -> None:
    assert [v for v in takes if not read[name].takes(v)] == []
    assert [v for v in refuses if read[name].takes(v)] == []
    assert read[name].takes(None), "null leaves an argument to vLLM"


@pytest.mark.parametrize("content", ["class Other: ...", "class (", "\x00", None])
def test_a_source_that_cannot_be_read_tells_nothing(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "arguments.py"
    if content is not None:
        path.write_text(content)
    assert read_arguments(path, "Arguments") == {}


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.32.0", (0, 32, 0)),
        ("0.32.0+cpu", (0, 32, 0)),
        ("0.19.1rc1.dev102+g1234", (0, 19, 1)),
        ("0.1.dev20073+g8e685d198", None),
        ("unknown", None),
    ],
)
def test_a_version_is_known_by_its_release(version: str, release: tuple[int, ...] | None) -> None:
    vllm = InstalledVllm(version=version)
    assert vllm.release == release
    assert vllm.older_than(0, 20) == (release is not None and release < (0, 20))


def test_the_vllm_of_this_environment_is_read_without_importing_it() -> None:
    vllm = installed_vllm()
    assert vllm is not None
    assert vllm.release is not None
    assert vllm.release >= (0, 32)
    assert {"max_model_len", "attention_backend", "speculative_config"} <= set(vllm.engine)
    assert {"ngram", "mtp", "eagle3", "dflash"} <= set(vllm.methods or ())
    assert vllm.engine["gpu_memory_utilization"].takes(0.88)
    assert not vllm.engine["gpu_memory_utilization"].takes("high")
