"""The house rules that a reader may rely on, read from the source."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for folder in ("pipeline", "jobs")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
# The one module that may import each of these, wherever in the module it does so.
DOORS = {
    "hydra": "pipeline.config",
    "omegaconf": "pipeline.config",
    "ray": "pipeline.execution.scheduler",
    "vllm": "pipeline.execution.engine",
    "mlflow": "pipeline.tracking.store",
    "pynvml": "pipeline.host.nvml",
}
# From the ground up. A room is a module or a package; it imports from rooms below it, or from
# itself. Rooms on one floor do not know each other. The zoo's verbs run the engine, so they live
# high above the zoo that the engine is given checkpoints from.
FLOORS = (
    ("passwords", "interrupts"),
    ("errors", "values", "identity"),
    ("platforms", "installed"),
    ("spec", "locks", "commandline", "mistakes", "grid_errors", "verbs"),
    ("methods", "prompts", "folders", "zoo", "checkpoints", "host"),
    ("parse",),
    ("config", "sources", "engine_config", "arguments", "grid"),
    ("rules",),
    ("plan",),
    ("durable", "records", "serve", "preflight"),
    ("outputs",),
    ("results", "estimate", "analysis"),
    ("execution", "progress"),
    ("provenance", "console", "zoo.enginecount", "evidence"),
    ("tracking", "report", "zoo.evaluate", "unfinished"),
    ("assignments", "elsewhere", "staging"),
    ("driver",),
    ("sweep", "ui", "zoo.__main__", "preflight.__main__"),
    ("__main__",),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module that a tree imports, at its top or inside functions, by its whole name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module


def parsed(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text())


def room(module: str) -> str:
    """The part of `pipeline` that a module belongs to."""
    _, first, *rest = module.split(".")
    inner = ".".join([first, *rest])
    return inner if inner in FLOOR else first


@pytest.mark.parametrize(("library", "door"), DOORS.items(), ids=DOORS)
def test_a_heavy_library_is_imported_in_one_module_only(library: str, door: str) -> None:
    users = [n for n in MODULES if library in {i.partition(".")[0] for i in imported(parsed(n))}]
    assert users == [door]


def test_no_import_is_relative() -> None:
    relative = [
        name
        for name in MODULES
        for node in ast.walk(parsed(name))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_every_room_has_its_floor() -> None:
    rooms = {room(name) for name in MODULES if name.startswith("pipeline.")}
    assert rooms - set(FLOOR) == set(), "give the new room a floor in this test"


@pytest.mark.parametrize("name", [n for n in MODULES if n.startswith("pipeline.")])
def test_a_module_imports_only_from_below_or_from_its_own_room(name: str) -> None:
    used = {i for i in imported(parsed(name)) if i.startswith("pipeline.")}
    others = {i for i in used if room(i) != room(name)}
    assert [i for i in sorted(others) if FLOOR[room(i)] >= FLOOR[room(name)]] == []


def test_the_pipeline_knows_nothing_of_the_jobs_that_run_it() -> None:
    pipeline = [name for name in MODULES if name.partition(".")[0] == "pipeline"]
    used = {i.partition(".")[0] for name in pipeline for i in imported(parsed(name))}
    assert "jobs" not in used


@pytest.mark.parametrize("name", MODULES)
def test_a_module_says_what_it_is_for(name: str) -> None:
    assert ast.get_docstring(parsed(name))


@pytest.mark.parametrize("name", MODULES)
def test_nothing_is_printed_past_the_console(name: str) -> None:
    calls = [
        node.lineno
        for node in ast.walk(parsed(name))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert calls == []


def test_reading_a_configuration_and_planning_imports_nothing_heavy() -> None:
    heavy = ["torch", "transformers", "vllm", "ray", "mlflow", "datasets", "pandas"]
    program = (
        "import json, sys; import pipeline.config, pipeline.plan, pipeline.sources;"
        f"print(json.dumps(sorted(set({heavy}) & set(sys.modules))))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert json.loads(ended.stdout) == []
