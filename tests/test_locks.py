from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.locks import held


def test_a_taken_lock_names_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with (
        held(path, "sweep one", 0, InputError),
        pytest.raises(InputError, match=f"sweep one, process {os.getpid()}"),
        held(path, "sweep two", 0, InputError),
    ):
        pass


def test_a_lock_is_free_again_after_its_block_even_when_that_failed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with pytest.raises(ZeroDivisionError), held(path, "a", 0, InputError):
        raise ZeroDivisionError
    with held(path, "b", 0, InputError):
        pass
    assert not path.with_name("lock.owner").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_users_who_share_a_machine_share_its_lock() -> None:
    script = (
        "import os, sys; from pathlib import Path; from pipeline.errors import InputError;"
        "from pipeline.locks import held\n"
        "os.umask(0o077); os.setuid(int(sys.argv[2]))\n"
        "with held(Path(sys.argv[1]), 'user', 0, InputError): print('held')"
    )
    with tempfile.TemporaryDirectory() as shared:
        Path(shared).chmod(0o1777)
        path = Path(shared) / "lock"

        def by(user: int) -> str:
            command = [sys.executable, "-c", script, str(path), str(user)]
            done = subprocess.run(command, capture_output=True, text=True)
            return done.stdout + done.stderr.strip().rpartition("\n")[2]

        assert [by(65534), by(0), by(65533)] == ["held\n"] * 3
        with held(path, "me", 0, InputError):
            assert "InputError" in by(65534)


def test_a_lock_dies_with_a_killed_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    script = (
        "import sys, time; from pathlib import Path; from pipeline.errors import InputError;"
        "from pipeline.locks import held\n"
        "with held(Path(sys.argv[1]), 'other', 0, InputError): print('held', flush=True);"
        " time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="other"), held(path, "me", 0, InputError):
            pass
        holder.kill()
    began = time.monotonic()
    with held(path, "me", 5, InputError):
        assert time.monotonic() - began < 5
