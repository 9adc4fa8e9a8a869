"""outclass knows nothing of stages, stages nothing of flows; and outclass knows nothing of files."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FORBIDDEN = {
    "outclass": {"stages", "flows", "prefect", "dvc", "yaml"},
    "stages": {"flows", "prefect", "dvc"},
}
FILES = [path for layer in FORBIDDEN for path in sorted((ROOT / layer).rglob("*.py"))]
OPENING = {
    *("open", "open_code", "fdopen", "fromfile", "tofile", "memmap", "loadtxt", "savetxt", "savez", "truetype"),
    *("read_text", "read_bytes", "write_text", "write_bytes", "read_csv", "read_parquet", "to_parquet", "to_csv"),
    *("mkdir", "makedirs", "unlink", "rmtree", "touch", "rename", "replace_file", "savefig"),
}
FONTS = {("outclass/datasets/glyphs.py", "truetype")}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported anywhere in a file, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            yield str(node.module)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            assert called not in {"import_module", "__import__"}, "imports are written out here"


def called(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id
            elif isinstance(node.func, ast.Attribute):
                yield node.func.attr


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_layer_imports_an_outer_one(path):
    roots = {module.split(".")[0] for module in imported(ast.parse(path.read_text()))}
    assert roots & FORBIDDEN[path.relative_to(ROOT).parts[0]] == set()


@pytest.mark.parametrize("path", sorted((ROOT / "outclass").rglob("*.py")), ids=name_of)
def test_outclass_opens_no_files_but_fonts(path):
    found = {(name_of(path), name) for name in called(ast.parse(path.read_text())) if name in OPENING}
    assert found <= FONTS


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import prefect.flows as p", "prefect.flows"),
        ("def f():\n    from dvc.api import x", "dvc.api"),
        ("if True:\n    import yaml", "yaml"),
    ],
)
def test_the_walk_sees_hidden_imports(code, expected):
    assert list(imported(ast.parse(code))) == [expected]


def test_the_walk_sees_files_being_opened():
    code = "from pathlib import Path\nwith open('a') as f: pass\nPath('b').write_text('c')"
    assert set(called(ast.parse(code))) >= {"open", "write_text"}
