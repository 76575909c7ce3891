"""What the machine refuses: a read-only folder, a full disk, a size limit, a second process.

These run as root too, where permissions stop nobody: a folder is made immutable, a small file
system of its own is filled, a limit on file sizes is set. Where the machine does not allow the
first two, those tests are skipped and say so.
"""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.checkpoints import files
from pipeline.checkpoints.__main__ import main
from pipeline.errors import EXIT_NO_INFRASTRUCTURE, EXIT_OK
from tests.checkpoints.folders import EXTRA, contents, trap
from tests.checkpoints.pairs import pair

ROOT = Path(__file__).parents[2]
Usage = namedtuple("Usage", "total used free")


def call(*command: str) -> bool:
    found = shutil.which(command[0])
    return bool(found) and not subprocess.run(command, capture_output=True).returncode


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[Path]:
    """A checkpoint whose folder takes no new name, not from root either."""
    folder = trap(tmp_path / "model", 2)
    folder.chmod(0o555)
    if not call("chattr", "+i", str(folder)) and os.geteuid() == 0:
        pytest.skip("this file system has no immutable attribute, and root may write anywhere")
    yield folder
    call("chattr", "-i", str(folder))
    folder.chmod(0o755)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not call("mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)):
        pytest.skip("this user may not mount a file system")
    yield disk
    call("umount", str(disk))


@pytest.mark.parametrize("flag", ["", "--undo"])
def test_a_read_only_folder(frozen: Path, flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(frozen)
    if flag:
        call("chattr", "-i", str(frozen))
        frozen.chmod(0o755)
        assert main(["register-mtp", str(frozen)]) == EXIT_OK
        before = contents(frozen)
        frozen.chmod(0o555)
        assert call("chattr", "+i", str(frozen)) or os.geteuid()

    assert main(["register-mtp", str(frozen), *([flag] if flag else [])]) == EXIT_NO_INFRASTRUCTURE

    assert "cannot be written" in capsys.readouterr().err
    assert contents(frozen) == before


def test_a_read_only_folder_may_be_looked_at(frozen: Path) -> None:
    assert main(["register-mtp", str(frozen), "--dry-run"]) == EXIT_OK


def test_too_little_space_is_found_before_anything_is_written(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trap(small_disk / "model", 2)
    before = contents(folder)

    assert main(["register-mtp", str(folder)]) == EXIT_NO_INFRASTRUCTURE

    assert "are needed; nothing was written" in capsys.readouterr().err
    assert contents(folder) == before


def full(monkeypatch: pytest.MonkeyPatch, disk: Path, leave: int) -> None:
    """Fill a disk but for a few pages, behind the back of the check for free space."""
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize
    (disk / "filler").write_bytes(b"0" * max(0, free - leave))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(1 << 50, 0, 1 << 50))


@pytest.mark.parametrize("leave", [0, 4096, 8192])
def test_a_disk_that_fills_up_leaves_the_original_alone(
    small_disk: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    leave: int,
) -> None:
    folder = trap(small_disk / "model", 200)
    before = contents(folder)
    full(monkeypatch, small_disk, leave)

    assert main(["register-mtp", str(folder)]) == EXIT_NO_INFRASTRUCTURE

    assert "No space left" in capsys.readouterr().err
    assert contents(folder) == before


def test_a_head_that_does_not_fit_is_not_left_in_part(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, folder = trap(tmp_path / "source", 2), trap(small_disk / "model", 2, None)
    before = contents(folder)
    assert main(["register-mtp", str(folder), f"source={source}"]) == EXIT_NO_INFRASTRUCTURE
    assert contents(folder) == before
    full(monkeypatch, small_disk, 4096)

    assert main(["register-mtp", str(folder), f"source={source}"]) == EXIT_NO_INFRASTRUCTURE

    assert contents(folder) == before


def test_a_hybrid_that_does_not_fit_is_resumed_with_more_room(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    int4, fp8 = pair(tmp_path)
    arguments = ["build-hybrid", f"int4={int4}", f"fp8={fp8}", f"out={small_disk / 'out'}"]
    assert main([*arguments, "--dry-run"]) == EXIT_NO_INFRASTRUCTURE
    assert not (small_disk / "out").exists()
    full(monkeypatch, small_disk, 12288)

    assert main(arguments) == EXIT_NO_INFRASTRUCTURE
    assert not list((small_disk / "out").glob(".*-tmp"))
    (small_disk / "filler").unlink()

    assert main(arguments) == EXIT_OK


def test_a_limit_on_file_sizes(tmp_path: Path) -> None:
    folder = trap(tmp_path / "model", 200)
    before = contents(folder)

    def limit() -> None:
        # Python ignores SIGXFSZ, so that the write itself fails.
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = subprocess.run(
        [sys.executable, "-m", "pipeline.checkpoints", "register-mtp", str(folder)],
        cwd=ROOT,
        preexec_fn=limit,
        capture_output=True,
        text=True,
    )

    assert done.returncode == EXIT_NO_INFRASTRUCTURE
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert contents(folder) == before


def test_a_second_process_on_the_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trap(tmp_path / "model", 2)
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        assert main(["register-mtp", str(folder)]) == EXIT_NO_INFRASTRUCTURE
    finally:
        os.close(descriptor)
    assert "another run" in capsys.readouterr().err
    assert main(["register-mtp", str(folder)]) == EXIT_OK


def test_an_interrupted_run_leaves_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = trap(tmp_path / "model", 2)
    before = contents(folder)

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "put", interrupted)

    assert main(["register-mtp", str(folder)]) == 128 + signal.SIGINT
    assert contents(folder) == before


def test_a_file_system_without_links_gets_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, folder = trap(tmp_path / "source", 2), trap(tmp_path / "model", 2, None)
    monkeypatch.setattr(files, "_linked", lambda source, path: False)
    monkeypatch.setattr(files, "_cloned", lambda source, path: False)

    assert main(["register-mtp", str(folder), f"source={source}"]) == EXIT_OK

    assert "(copy)" in capsys.readouterr().out
    assert (folder / EXTRA).read_bytes() == (source / EXTRA).read_bytes()
    assert not (folder / EXTRA).samefile(source / EXTRA)
