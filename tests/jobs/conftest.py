"""What tests of nights share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.jobs.receivers import Receiver


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    receiver = Receiver(200)
    monkeypatch.setenv("HOOK_URL", receiver.url)
    yield receiver
    receiver.close()
