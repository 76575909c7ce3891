"""A thousand damaged headers and indexes: a sentence every time, no byte of the original lost."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pipeline.checkpoints.__main__ import main
from pipeline.checkpoints.inspect import mtp_state
from pipeline.errors import EXIT_BAD_CONFIG, EXIT_NO_INFRASTRUCTURE, EXIT_OK, PipelineError
from tests.checkpoints.folders import EXTRA, INDEX, SHARDS, contents, trap

CORRUPTIONS = 1000
SENTENCES = {EXIT_OK, EXIT_BAD_CONFIG, EXIT_NO_INFRASTRUCTURE}
# Read by nobody but us, so what it says may be anything: sizes that overflow, names that are paths.
TOKENS = (
    *(
        b"null",
        b"true",
        b"-1",
        b"1e999",
        b"NaN",
        b"[]",
        b"{}",
        b'""',
        b"9" * 5000,
        b"[" * 3000,
        b"[" * 300 + b"]" * 300,
    ),
    *(b'"../../etc/passwd"', b'"/dev/zero"', b'"\\ud800"', b'"\\u0000"', b'"a/b"', b'"\xff"'),
    *(b'"mtp.x":', b'"weight_map":', b'"data_offsets":', b'"dtype":', b'"' + b"n" * 300 + b'"'),
)
Damage = Callable[[random.Random, bytes], bytes]


def flip(chance: random.Random, raw: bytes) -> bytes:
    changed = bytearray(raw)
    for _ in range(chance.randint(1, 8)):
        changed[chance.randrange(len(raw))] = chance.randrange(256)
    return bytes(changed)


def cut(chance: random.Random, raw: bytes) -> bytes:
    return raw[: chance.randrange(len(raw))]


def grow(chance: random.Random, raw: bytes) -> bytes:
    at = chance.randrange(len(raw))
    return raw[:at] + chance.randbytes(chance.randint(1, 64)) + raw[at:]


def repeat(chance: random.Random, raw: bytes) -> bytes:
    begin, at = chance.randrange(len(raw)), chance.randrange(len(raw))
    return raw[:at] + raw[begin : begin + chance.randint(1, 200)] + raw[at:]


def swap_value(chance: random.Random, raw: bytes) -> bytes:
    """Another value where one stands, so that the JSON often stays valid."""
    places = [at for at, byte in enumerate(raw) if byte == ord(":")]
    if not places:
        return raw + chance.choice(TOKENS)
    begin = chance.choice(places) + 1
    ends = [e for e in (raw.find(b",", begin), raw.find(b"}", begin)) if e >= 0]
    return raw[:begin] + chance.choice(TOKENS) + raw[min(ends, default=len(raw)) :]


def in_header(damage: Damage) -> Damage:
    """The same within the header, whose length is then put right: damage further in."""

    def inner(chance: random.Random, raw: bytes) -> bytes:
        end = 8 + int.from_bytes(raw[:8], "little")
        text = damage(chance, raw[8:end])
        return len(text).to_bytes(8, "little") + text + raw[end:]

    return inner


def length(chance: random.Random, raw: bytes) -> bytes:
    value = chance.choice([0, 1, 7, len(raw) - 8, len(raw), 10**8, 2**63, 2**64 - 1])
    return value.to_bytes(8, "little") + raw[8:]


DAMAGES: tuple[Damage, ...] = (flip, cut, grow, repeat, swap_value)
HEADER_DAMAGES = (*DAMAGES, *map(in_header, DAMAGES), length)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trap(tmp_path_factory.mktemp("whole") / "model", 2)


@pytest.mark.parametrize("hundred", range(CORRUPTIONS // 100))
def test_a_hundred_corruptions(
    whole: Path, tmp_path: Path, hundred: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(hundred * 100, hundred * 100 + 100):
        chance = random.Random(seed)
        folder = tmp_path / str(seed)
        shutil.copytree(whole, folder)
        name = chance.choice([INDEX, INDEX, EXTRA, EXTRA, SHARDS[0], "config.json"])
        damages = HEADER_DAMAGES if name.endswith(".safetensors") else DAMAGES
        damaged = chance.choice(damages)(chance, (folder / name).read_bytes())
        (folder / name).write_bytes(damaged)
        check(folder)
        capsys.readouterr()
        shutil.rmtree(folder)


def check(folder: Path) -> None:
    """Looking, applying and undoing all end in a sentence, and the folder is what it was."""
    before = contents(folder)
    with suppress(PipelineError):
        mtp_state(folder)
    looked = main(["register-mtp", str(folder), "--check"])
    assert looked in SENTENCES
    assert contents(folder) == before
    assert main(["register-mtp", str(folder), "wins=extra"]) in SENTENCES
    after = contents(folder)
    assert {n: after[n] for n in before if n != INDEX} == {
        n: before[n] for n in before if n != INDEX
    }
    assert before[INDEX] in (after[INDEX], after.get(f"{INDEX}.before-mtp"))
    main(["register-mtp", str(folder), "--undo"])
    assert contents(folder) == before
