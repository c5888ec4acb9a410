"""A comparison as Markdown with plots: bars per system, gain by question type, weight maps, cost against quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib import font_manager

from eval.metrics import MAIN, MEASURES
from eval.systems import LABELS
from rag.schema import CHANNEL_COLOURS, CHANNEL_LABELS, CHANNELS

_FONTS = ("Noto Sans CJK KR", "Noto Sans CJK JP", "NanumGothic", "Malgun Gothic", "Apple SD Gothic Neo")


def write_markdown(report: Mapping[str, Any], folder: Path) -> Path:
    """Write ``report.md`` and its pictures into ``folder``; returns the Markdown file."""
    folder.mkdir(parents=True, exist_ok=True)
    _use_korean_font()
    pictures = [_bars(report, folder), _gains(report, folder), _weight_maps(report, folder), _cost(report, folder)]
    lines = ["# 검색 방식 비교", "", _heading(report), "", *_tables(report), *_tests(report), *_types(report)]
    lines += [
        *_worse(report),
        *_errors(report),
        *_hindsight(report),
        *_chosen(report),
        *_latency(report),
        "## 그림",
        "",
    ]
    lines += [f"![{title}]({name})\n" for title, name in filter(None, pictures)]
    path = folder / "report.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """A Markdown table, with an empty line after it."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return [*lines, *("| " + " | ".join(_cell(value) for value in row) + " |" for row in rows), ""]


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value).replace("|", "\\|")


def _label(system: str) -> str:
    return LABELS.get(system, system)


def _heading(report: Mapping[str, Any]) -> str:
    kind = "섞은 색인" if report["mixed"] else "세트마다 따로 만든 색인"
    return (
        f"{kind}, 조정 20% / 시험 80%, 나눔 씨앗 {', '.join(map(str, report['seeds']))}. 수치는 시험 부분, 씨앗들의 중앙값. "
        f"비교 대상: {_label(report['target'])}. 보행 값 여섯 벌은 공개 세트 전체를 보며 골랐으므로, 관계 검색의 이득에는 표본 안의 "
        "몫이 섞여 있습니다."
    )


def _tables(report: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for name, systems in {**report["sets"], "평균(세트)": report["macro"]}.items():
        lines += [f"## {name}", ""]
        lines += table(["방식", *MEASURES], [[_label(s), *(row[m] for m in MEASURES)] for s, row in systems.items()])
    return lines


def _tests(report: Mapping[str, Any]) -> list[str]:
    rows = [
        [
            r["set"],
            f"{_label(r['first'])} − {_label(r['second'])}",
            f"{r['difference']:+.4f}",
            f"[{r['low']:+.4f}, {r['high']:+.4f}]",
            f"{r['p']:.4f}",
            f"{r['p_holm']:.4f}",
        ]
        for r in report["tests"]
    ]
    header = ["세트", f"차이({MAIN})", "평균", "95% 구간", "p", "p(Holm)"]
    return [
        "## 짝지은 비교",
        "",
        "교차 적합한 예측, 정답 문단을 나누는 질문끼리 함께 뽑는 짝 붓스트랩 10,000회.",
        "",
        *table(header, rows),
    ]


def _types(report: Mapping[str, Any]) -> list[str]:
    lines = ["## 질문 유형별 nDCG@10", ""]
    for name, types in report["types"].items():
        systems = list(report["sets"][name])
        header = [name, "시험 질문", *map(_label, systems), "가장 나은 고정 방식과의 차이"]
        rows = [
            [
                label,
                row["n_test"],
                *(row[s] for s in systems),
                f"{row['gain']:+.3f} [{row['gain_low']:+.3f}, {row['gain_high']:+.3f}] ({_label(row['rival'])})"
                if "gain" in row
                else "같은 방식",
            ]
            for label, row in types.items()
        ]
        lines += table(header, rows)
    return lines


def _worse(report: Mapping[str, Any]) -> list[str]:
    lines = ["## 나빠진 질문", ""]
    for name, row in report["worse"].items():
        if not row:
            continue
        lines += [
            f"**{name}**: {_label(report['target'])} 대 {_label(row['rival'])} — 나아짐 {row['better']}, 같음 {row['same']}, 나빠짐 {row['worse']}",
            "",
            *table(
                ["차이", "유형", "질문"], [[f"{q['difference']:+.3f}", q["type"], q["question"]] for q in row["losses"]]
            ),
        ]
    return lines


def _errors(report: Mapping[str, Any]) -> list[str]:
    header = [
        "세트",
        "정답 문단",
        "10위 안",
        "어느 채널 100위에도 없음",
        "한 채널에만 있음",
        "두 채널 이상에 있으나 밀림",
    ]
    rows = [
        [name, *(row[key] for key in ("gold", "found", "nowhere", "one_channel", "outvoted"))]
        for name, row in report["errors"].items()
    ]
    return [f"## 놓친 정답({_label(report['target'])}, 첫 씨앗)", "", *table(header, rows)]


def _hindsight(report: Mapping[str, Any]) -> list[str]:
    rows = [[name, row["per_set"], row["per_question"]] for name, row in report["hindsight"].items()]
    header = ["세트", "세트마다 가장 나은 설정", "질문마다 가장 나은 설정"]
    return ["## 뒤늦게 골랐다면(시험 부분 nDCG@10, 첫 씨앗)", "", *table(header, rows)]


def _chosen(report: Mapping[str, Any]) -> list[str]:
    rows = [
        [
            index,
            seed,
            _label(system),
            "/".join(f"{w:g}" for w in s["weights"].values()),
            s["rrf_k"],
            s["depth"],
            ", ".join(f"{k} {v}" for k, v in s["walk"].items()),
        ]
        for index, seeds in report["chosen"].items()
        for seed, systems in seeds.items()
        for system, s in systems.items()
    ]
    header = [
        "색인",
        "씨앗",
        "방식",
        "가중치(" + "/".join(CHANNEL_LABELS[c] for c in CHANNELS) + ")",
        "rrf_k",
        "깊이",
        "보행",
    ]
    return ["## 조정 부분에서 고른 값", "", *table(header, rows)]


def _latency(report: Mapping[str, Any]) -> list[str]:
    if not report.get("latency"):
        return []
    rows = [[stage, row["median_ms"], row["p95_ms"]] for stage, row in report["latency"].items()]
    return ["## 지연(한 질문, 데운 뒤)", "", *table(["단계", "중앙값 ms", "95% ms"], rows)]


# Pictures


def _use_korean_font() -> None:
    have = {font.name for font in font_manager.fontManager.ttflist}
    mpl.rcParams["font.family"] = next((name for name in _FONTS if name in have), "sans-serif")
    mpl.rcParams["axes.unicode_minus"] = False


def _save(figure: Any, folder: Path, name: str) -> str:
    figure.tight_layout()
    figure.savefig(folder / name, dpi=120)
    plt.close(figure)
    return name


def _bars(report: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    groups = {**report["sets"], "평균": report["macro"]}
    systems = list(report["macro"])
    figure, axes = plt.subplots(figsize=(2.2 * len(groups) + 3, 4))
    width = 0.8 / len(systems)
    for number, system in enumerate(systems):
        axes.bar(
            [g + number * width for g in range(len(groups))],
            [row[system][MAIN] for row in groups.values()],
            width,
            label=_label(system),
        )
    axes.set_xticks([g + 0.4 - width / 2 for g in range(len(groups))], list(groups))
    axes.set_ylabel("nDCG@10")
    axes.legend(fontsize=7, ncols=2)
    return "방식별 nDCG@10", _save(figure, folder, "bars.png")


def _gains(report: Mapping[str, Any], folder: Path) -> tuple[str, str] | None:
    rows = [
        (
            f"{name} · {label} ({row['n_test']})",
            row["gain"],
            row["gain"] - row["gain_low"],
            row["gain_high"] - row["gain"],
        )
        for name, types in report["types"].items()
        for label, row in types.items()
        if "gain" in row
    ]
    if not rows:
        return None
    labels, gain, low, high = zip(*rows, strict=True)
    figure, axes = plt.subplots(figsize=(7, 0.35 * len(rows) + 1.2))
    axes.errorbar(gain, range(len(rows)), xerr=(low, high), fmt="o", color="#0072B2")
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set_yticks(range(len(rows)), labels, fontsize=8)
    axes.set_xlabel("가장 나은 고정 방식과의 nDCG@10 차이(95% 구간)")
    return "질문 유형별 이득", _save(figure, folder, "gain_by_type.png")


def _weight_maps(report: Mapping[str, Any], folder: Path) -> tuple[str, str] | None:
    """nDCG@10 on the tune part over the weight simplex (vector across, graph up; the rest is BM25)."""
    maps = report.get("weight_maps", {})
    if not maps:
        return None
    figure, axes = plt.subplots(1, len(maps), figsize=(3.6 * len(maps) + 0.6, 3.4), squeeze=False)
    for panel, (name, rows) in zip(axes[0], maps.items(), strict=True):
        points = panel.scatter(
            [r[0] for r in rows], [r[2] for r in rows], c=[r[3] for r in rows], cmap="viridis", s=42, marker="s"
        )
        best = max(rows, key=lambda r: r[3])
        panel.plot(best[0], best[2], "r+", markersize=12)
        panel.set_title(name, fontsize=9)
        panel.set_xlabel(CHANNEL_LABELS[CHANNELS[0]], color=CHANNEL_COLOURS[CHANNELS[0]])
        panel.set_ylabel(CHANNEL_LABELS[CHANNELS[2]], color=CHANNEL_COLOURS[CHANNELS[2]])
        figure.colorbar(points, ax=panel)
    return "가중치 지도(조정 부분, 가장 나은 보행·rrf_k)", _save(figure, folder, "weight_maps.png")


def _cost(report: Mapping[str, Any], folder: Path) -> tuple[str, str] | None:
    costs = report.get("cost_ms", {})
    if not costs:
        return None
    figure, axes = plt.subplots(figsize=(5.5, 4))
    for system, ms in costs.items():
        quality = report["macro"][system][MAIN]
        axes.scatter(ms, quality)
        axes.annotate(_label(system), (ms, quality), fontsize=8, xytext=(4, 3), textcoords="offset points")
    axes.set_xlabel("질문 하나의 검색 시간(중앙값 ms, 임베딩 제외)")
    axes.set_ylabel("nDCG@10 (세트 평균)")
    return "비용과 품질", _save(figure, folder, "cost.png")
