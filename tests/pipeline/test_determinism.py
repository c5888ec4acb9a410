"""The same question over the same documents gives the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag.assembly import build_pipeline
from rag.pipeline import Pipeline
from rag.weighting import MODEL_FREE
from tests.pipeline.support import asked, command, finished, settings_for, stable

QUESTIONS = (
    "딸기 수확 후기 EC 얼마로 낮춰요?",
    "토마토 배꼽썩음과 왜 생기고 뭘 해야 돼?",
    "코이어 배지랑 암면 배지 급액 횟수 차이",
    "2025년 3월 김주임이 쓴 작업일지에서 방제한 날 알려줘",
    "정전되면 온실에서 뭐부터 해야 하나",
    "1동 배액률 작년 3월이랑 올해 3월 비교해줘",
    "잎이 위로 말리고 황화되는데 담배가루이도 보여요",
)
PAIR = ("adaptive", "uniform")
PROGRAM = """
import json, sys
from pathlib import Path
from rag.assembly import build_pipeline
from tests.pipeline.support import asked, settings_for, stable
from tests.pipeline.test_determinism import PAIR, QUESTIONS
pipeline = build_pipeline(settings_for(Path(sys.argv[1])))
results = [r for text in QUESTIONS for r in pipeline.compare(asked(text), PAIR)]
print(json.dumps([[stable(r), [(d.stage, d.what, d.why) for d in r.trace.decisions]] for r in results]))
"""


def test_twice_in_one_process(pipeline: Pipeline, base: Path) -> None:
    other = build_pipeline(settings_for(base))
    for text in QUESTIONS:
        first = [stable(result) for result in pipeline.compare(asked(text), PAIR)]
        assert [stable(result) for result in pipeline.compare(asked(text), PAIR)] == first
        assert [stable(result) for result in other.compare(asked(text), PAIR)] == first


def test_who_asked_before_changes_nothing(pipeline: Pipeline) -> None:
    first = stable(pipeline.ask(asked(QUESTIONS[0])))
    for text in QUESTIONS[1:]:
        pipeline.ask(asked(text, "pureun"))
    assert stable(pipeline.ask(asked(QUESTIONS[0]))) == first


def test_asking_one_system_or_several(pipeline: Pipeline) -> None:
    for result in pipeline.compare(asked(QUESTIONS[1]), MODEL_FREE):
        assert stable(pipeline.ask(asked(QUESTIONS[1]), system=result.system)) == stable(result)


@pytest.mark.slow
def test_two_processes_with_other_hash_seeds(pipeline: Pipeline, base: Path) -> None:
    running = [command("-c", PROGRAM, str(base), PYTHONHASHSEED=seed) for seed in ("1", "4242")]
    outputs = []
    for process in running:
        code, out, err = finished(process)
        assert code == 0, err
        outputs.append(json.loads(out))
    assert outputs[0] == outputs[1]
    here = [stable(result) for text in QUESTIONS for result in pipeline.compare(asked(text), PAIR)]
    assert [form for form, _ in outputs[0]] == here
