"""Build the demo index: write the demo corpus and take it into the store. ``python -m ingest.sample.demo``.

Idempotent: a second run finds everything in place. The embedding cache of the corpus is shipped, so nothing is embedded
unless a text changed.
"""

from __future__ import annotations

import sys
import time

from ingest.__main__ import main as ingest
from ingest.sample.build import build_corpus
from ingest.sample.farms import FARM_IDS
from rag.errors import RagError
from rag.settings import load_settings


def build_demo() -> int:
    """Build corpus and index below the store of the settings; returns an exit code."""
    started = time.monotonic()
    try:
        store = load_settings().store
    except RagError as error:
        print(error, file=sys.stderr)
        return 2
    corpus = store / "sample"
    print("시연 문서를 만드는 중…", flush=True)
    build_corpus(corpus)
    worst = ingest([str(corpus / "public"), "--public", "--quiet"])
    for farm_id in FARM_IDS:
        worst = max(worst, ingest([str(corpus / "farms" / farm_id), "--farm", farm_id, "--quiet"]))
    print(f"시연 색인 준비 끝 ({time.monotonic() - started:.0f}초)")
    return worst


if __name__ == "__main__":
    sys.exit(build_demo())
