"""The peer: LlamaIndex's stock ``QueryFusionRetriever`` over a dense retriever and its stock ``BM25Retriever``.

Everything is as the packages ship it: mode ``reciprocal_rerank`` (constant 60, no weights), one query, English BM25
tokens. The dense retriever hands over our cached dense run, so that both sides search the same vectors. Both retrievers
and the fusion return DEPTH passages. ``MockLLM`` because the constructor wants a model even for one query.
"""

from __future__ import annotations

import io
from importlib.metadata import version

import numpy as np
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TextNode
from llama_index.retrievers.bm25 import BM25Retriever
from tqdm import tqdm

from eval.datasets import DataSet
from eval.runs import DEPTH, ChannelRuns, EvalIndex, Rows, Run
from rag.files import write_whole


class CachedDense(BaseRetriever):
    """Answers each question with its row of a dense run."""

    def __init__(self, nodes: list[TextNode], run: Run, question_rows: dict[str, int]) -> None:
        super().__init__()
        self._nodes, self._run, self._question_rows = nodes, run, question_rows

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        question = self._question_rows[query_bundle.query_str]
        rows, scores = self._run.rows[question], self._run.scores[question]
        return [
            NodeWithScore(node=self._nodes[row], score=float(score))
            for row, score in zip(rows, scores, strict=True)
            if row >= 0
        ]


def passage_nodes(sets: list[DataSet]) -> list[TextNode]:
    """One node per passage, in index order: title and text, no metadata."""
    return [
        TextNode(id_=p.id, text="\n".join(part for part in (p.title, p.text) if part)) for s in sets for p in s.passages
    ]


def peer_rows(runs: ChannelRuns, sets: list[DataSet]) -> Rows:
    """Rows of the peer's ranking, shape (questions, DEPTH), −1 where it returned no more; kept beside the runs."""
    path = runs.folder / f"peer-llama-index-{version('llama-index-core')}.npy"
    if not path.exists():
        buffer = io.BytesIO()
        np.save(buffer, _ask_peer(runs.index, sets, runs.dense()))
        write_whole(path, buffer.getvalue())
    rows: Rows = np.load(path)
    return rows


def _ask_peer(index: EvalIndex, sets: list[DataSet], dense: Run) -> Rows:
    nodes = passage_nodes(sets)
    questions = {question.text: row for row, question in enumerate(index.questions)}
    fusion = QueryFusionRetriever(
        [
            CachedDense(nodes, dense, questions),
            BM25Retriever.from_defaults(nodes=list[BaseNode](nodes), similarity_top_k=min(DEPTH, len(nodes))),
        ],
        llm=MockLLM(),
        mode=FUSION_MODES.RECIPROCAL_RANK,
        similarity_top_k=DEPTH,
        num_queries=1,
        use_async=False,
    )
    rows = np.full((len(index.questions), DEPTH), -1, np.int32)
    for number, question in enumerate(tqdm(index.questions, desc="LlamaIndex", unit="질문", leave=False)):
        found = [index.row_of[hit.node.node_id] for hit in fusion.retrieve(question.text)]
        rows[number, : len(found)] = found
    return rows
