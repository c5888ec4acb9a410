"""The small demo corpus, taken in once with the shipped vectors, and a pipeline on it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ingest.sample.build import CorpusManifest, build_corpus
from rag.assembly import build_pipeline
from rag.pipeline import Pipeline
from tests.fakes import unrefusing_profiles
from tests.pipeline.support import CONFIG, FARMS, copy_store, settings_for, take_in


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration whose refusal level is 0: weak evidence is answered from, so that tuning changes no test here.

    What is refused by rule (no evidence, another farm's name, a question without words) still is.
    """
    folder = tmp_path_factory.mktemp("config")
    profiles = unrefusing_profiles(folder)
    path = folder / "onsil.toml"
    path.write_text(f"profiles = '{profiles}'\n{CONFIG}", encoding="utf-8")
    return path


def use_config(patch: pytest.MonkeyPatch, config: Path) -> None:
    """Only the tests' configuration: no settings of whoever runs them."""
    for name in list(os.environ):
        if name.startswith("ONSIL_") or name == "OPENAI_API_KEY":
            patch.delenv(name)
    patch.setenv("ONSIL_CONFIG", str(config))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, config: Path) -> None:
    use_config(monkeypatch, config)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> CorpusManifest:
    return build_corpus(tmp_path_factory.mktemp("corpus"), only_small=True)


@pytest.fixture(scope="session")
def base(corpus: CorpusManifest, config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the small corpus. Read only: take :func:`own_store` to change one."""
    store = tmp_path_factory.mktemp("base") / "store"
    with pytest.MonkeyPatch.context() as patch:
        use_config(patch, config)
        assert take_in(store, "public", corpus.target / "public") == 0
        for farm_id in FARMS:
            assert take_in(store, farm_id, corpus.target / "farms" / farm_id) == 0
    return store


@pytest.fixture
def own_store(base: Path, tmp_path: Path) -> Path:
    return copy_store(base, tmp_path / "store")


@pytest.fixture(scope="session")
def session_pipeline(base: Path, config: Path) -> Pipeline:
    with pytest.MonkeyPatch.context() as patch:
        use_config(patch, config)
        return build_pipeline(settings_for(base))


@pytest.fixture
def pipeline(session_pipeline: Pipeline) -> Pipeline:
    """The pipeline on the base store; immutable, shared by all tests."""
    return session_pipeline


@pytest.fixture
def small_store(tmp_path: Path) -> Path:
    """A store with two short public documents, one short document of a farm."""
    sources = tmp_path / "sources"
    for name, text in {
        "public/딸기_EC.md": "# 딸기 급액 EC\n\n딸기 수확기 급액 EC는 1.2dS/m로 둔다.\n",
        "public/토마토_온도.md": "# 토마토 야간 온도\n\n토마토 야간 최저온도는 15℃로 둔다.\n",
        "farm/보일러.md": "# 보일러 점검\n\n3동 보일러 노즐을 2026-11-20에 갈았다.\n",
    }.items():
        path = sources / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    store = tmp_path / "small"
    assert take_in(store, "public", sources / "public") == 0
    assert take_in(store, "haetsal", sources / "farm") == 0
    return store
