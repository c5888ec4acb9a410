"""Rules of the code base that no linter knows; import layers are checked by ``lint-imports`` in ``make lint``."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import eval.__main__ as eval_terminal
import ingest.__main__ as ingest_terminal
import rag.__main__ as rag_terminal
import rag.feedback_export as feedback_export
import rag.lexicon_suggest as lexicon_suggest
from rag.settings import ROOT, Settings

PACKAGES = ("rag", "ingest", "eval")
# They shadow the standard library.
FORBIDDEN_NAMES = {"profile.py", "trace.py", "types.py"}
# The documents page ingests, the compare page shows a metric, assembly may hand over a parsing function.
MAY_IMPORT_UPWARDS = re.compile(r"rag/(ui/.*|api|assembly)\.py")
READS_ENVIRONMENT = {
    "rag/settings.py": None,
    # The matrix library reads it when it is loaded; there is no other way to set its threads.
    "rag/embedding.py": "OMP_NUM_THREADS",
}
# ragas reads its switch from the environment when it is imported.
SETS_A_SWITCH_OF_ITS_OWN = "RAGAS_DO_NOT_TRACK"
DOCUMENTS = ("README.md", "CHANGELOG.md", "profiles/README.md", "eval/sets/README.md", "ingest/sample/data/README.md")
# Set by tests, by the demo's own files or by people who do not keep secrets in files.
NOT_IN_THE_CONFIGURATION = {"profiles", "embedding_cache", "qdrant_api_key"}


def sources() -> list[Path]:
    return [ROOT / "streamlit_app.py", *(p for name in PACKAGES for p in sorted((ROOT / name).rglob("*.py")))]


def where(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """(module, whether it is a bare ``import module``)."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, alias.asname is None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, False


def test_no_module_shadows_the_standard_library() -> None:
    assert not [where(path) for path in sources() if path.name in FORBIDDEN_NAMES]


def test_nobody_hides_the_builtin_eval() -> None:
    everything = [*sources(), *(ROOT / "tests").rglob("*.py")]
    assert not [where(path) for path in everything if ("eval", True) in imports(path)]


def test_nothing_below_the_front_ends_imports_ingest_or_eval() -> None:
    wrong = [
        f"{where(path)}: {module}"
        for path in sources()
        if where(path).startswith("rag/") and not MAY_IMPORT_UPWARDS.fullmatch(where(path))
        for module, _ in imports(path)
        if module.split(".")[0] in ("ingest", "eval")
    ]
    assert not wrong


def test_only_the_screens_import_streamlit() -> None:
    wrong = [
        where(path)
        for path in sources()
        if any(module.split(".")[0] == "streamlit" for module, _ in imports(path))
        and not where(path).startswith(("rag/ui/", "streamlit_app.py"))
    ]
    assert not wrong


def environment_uses(path: Path) -> list[str]:
    """The statements of a module that touch the process environment."""
    text = path.read_text(encoding="utf-8")
    names = {"environ", "environb", "getenv", "putenv", "unsetenv"}
    return [
        ast.get_source_segment(text, node) or ""
        for node in ast.walk(tree(path))
        if isinstance(node, ast.stmt)
        and not hasattr(node, "body")
        and any(
            (isinstance(inner, ast.Attribute) and inner.attr in names)
            or (isinstance(inner, ast.Name) and inner.id in names)
            for inner in ast.walk(node)
        )
    ]


def test_only_the_settings_read_the_environment() -> None:
    for path in sources():
        uses = environment_uses(path)
        if not uses or READS_ENVIRONMENT.get(where(path), "") is None:
            continue
        allowed = READS_ENVIRONMENT.get(where(path)) or SETS_A_SWITCH_OF_ITS_OWN
        assert all(allowed in use for use in uses), f"{where(path)}: {uses}"


@pytest.mark.parametrize("pattern", [r"\bshared/", r"/work/", r"/home/\w", r"/root/"])
def test_no_paths_of_a_machine(pattern: str) -> None:
    suffixes = {".py", ".md", ".toml", ".json", ".yml", ".txt", ".tsv"}
    files = [*sources(), *(ROOT / name for name in ("README.md", "CHANGELOG.md", "Makefile", "onsil.toml"))]
    files += [p for name in (*PACKAGES, "profiles", ".streamlit", ".ci") for p in (ROOT / name).rglob("*")]
    text_files = [p for p in files if p.is_file() and (p.suffix in suffixes or p.name in ("Makefile", "run"))]
    assert not [where(p) for p in text_files if re.search(pattern, p.read_text(encoding="utf-8"))]


def test_every_test_folder_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert not [where(folder) for folder in folders if not (folder / "__init__.py").exists()]


class TestSettings:
    def test_every_key_of_the_file_is_a_setting(self) -> None:
        assert tomllib.loads((ROOT / "onsil.toml").read_text(encoding="utf-8")).keys() <= Settings.model_fields.keys()

    def test_every_setting_has_a_line(self) -> None:
        text = (ROOT / "onsil.toml").read_text(encoding="utf-8")
        named = {name for name in Settings.model_fields if re.search(rf"\b{name}\b", text)}
        assert Settings.model_fields.keys() - named <= NOT_IN_THE_CONFIGURATION

    def test_values_of_the_file_are_allowed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ONSIL_CONFIG", str(ROOT / "onsil.toml"))
        assert Settings().farms


def documents() -> dict[str, str]:
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in DOCUMENTS if (ROOT / name).exists()}


def python_commands() -> set[str]:
    """``python -m …`` as written in documents, up to a comment, and in messages and docstrings, up to a quote."""
    found = {
        line.split("   #")[0].strip().strip("`")
        for text in documents().values()
        for line in re.findall(r"^(?:\$ )?(python -m [^\n]*)$", text, re.MULTILINE)
    }
    for path in sources():
        found |= set(re.findall(r"python -m [a-z_.]+(?: [a-z][a-z-]*\b)?", path.read_text(encoding="utf-8")))
    return found


TERMINALS: dict[str, Callable[[list[str]], object]] = {
    "rag": rag_terminal._arguments,
    "ingest": ingest_terminal._arguments,
    "eval": eval_terminal._arguments,
}


def accepts(read: Callable[[list[str]], object], arguments: list[str]) -> bool:
    """Whether a command line is understood; ``--help`` ends with 0, a wrong one with 2."""
    try:
        read(arguments)
    except SystemExit as end:
        return end.code == 0
    return True


class TestCommands:
    def test_there_are_some(self) -> None:
        assert len(python_commands()) > 10

    @pytest.mark.parametrize("line", sorted(python_commands()))
    def test_of_documents_and_messages_exist(self, line: str) -> None:
        _, _, module, *arguments = shlex.split(line)
        spec = importlib.util.find_spec(module)
        assert spec is not None, line
        if spec.submodule_search_locations:
            assert importlib.util.find_spec(f"{module}.__main__") is not None, line
        if module == "eval" and len(arguments) == 1:
            arguments.append("--help")
        read = TERMINALS.get(module)
        if module == "rag" and arguments[:1] == ["lexicon"]:
            read, arguments = lexicon_suggest._arguments, arguments[1:]
        if module == "rag" and arguments[:1] == ["feedback"]:
            read, arguments = feedback_export._arguments, arguments[1:]
        if read is None or not arguments or arguments == ["ingest"]:
            return
        assert accepts(read, arguments), line

    def test_make_targets_exist(self) -> None:
        targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
        texts = [*documents().values(), *(path.read_text(encoding="utf-8") for path in sources())]
        named = {name for text in texts for name in re.findall(r"(?:^|[`'\"])make ([a-z]+)", text, re.MULTILINE)}
        assert named
        assert named <= targets

    def test_the_documented_json_is_the_json(self) -> None:
        """The README names every key of ``--json`` and no other."""
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        (paragraph,) = re.findall(r"^`--json` 의 키: (.*?)\n\n", text, re.MULTILINE | re.DOTALL)
        outer = re.sub(r"\{[^{}]*\}", "", re.sub(r"\{[^{}]*\}", "", paragraph.replace("\n", " ")))
        documented = set(re.findall(r"[a-z_]+", outer))
        body = next(
            node
            for node in ast.walk(tree(ROOT / "rag" / "render.py"))
            if isinstance(node, ast.FunctionDef) and node.name == "as_json"
        )
        (returned,) = [node.value for node in ast.walk(body) if isinstance(node, ast.Return)]
        assert isinstance(returned, ast.Dict)
        assert documented == {key.value for key in returned.keys if isinstance(key, ast.Constant)}
