"""The app with an answerer that says two words and then nothing until it is told to stop: ``python … PORT``."""

from __future__ import annotations

import sys
from dataclasses import replace

from streamlit.web import cli

from rag.pipeline import Listener, Pipeline
from rag.schema import Query, Result
from tests.app.conftest import APP

_compare = Pipeline.compare


def slow_ask(self: Pipeline, query: Query, *, system: str, listener: Listener) -> Result:
    """The real result, after two words and a wait of at most a minute."""
    result = _compare(self, query, (system,))[0]
    listener.on_stage("답변 쓰기")
    listener.on_queue(2)
    listener.on_token("낱말0 낱말1 ")
    assert listener.cancel is not None
    listener.cancel.wait(60)
    return replace(result, answer=replace(result.answer, answerer="slow"))


Pipeline.ask = slow_ask  # type: ignore[method-assign, assignment]

if __name__ == "__main__":
    sys.argv = ["streamlit", "run", str(APP), "--server.port", sys.argv[1]]
    cli.main()
