"""The converted target, once for all tests of the zoo that need it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import zoo


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def target_folder(cache: Path) -> Path:
    return zoo.materialise(zoo.TARGET, cache_dir=cache, progress=lambda _: None)
