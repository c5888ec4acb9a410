"""The small store, taken in once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.stores.view import View
from tests.answering.support import FARM_FILES, HAETSAL, PUBLIC_FILES
from tests.contract.conftest import open_views, take_in


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    take_in(folder, "public", PUBLIC_FILES, tmp_path_factory.mktemp("sources"))
    take_in(folder, "farm:haetsal", FARM_FILES, tmp_path_factory.mktemp("sources"))
    return folder


@pytest.fixture(scope="session")
def view(store: Path) -> View:
    return open_views(store).get(HAETSAL)
