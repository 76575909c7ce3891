"""`python -m pipeline.preflight [key=value ...]`: can this machine measure, and honestly?

    platform=NAME    the platform to check for; by default what this machine is
    model=NAME       one of its targets, or [A,B]; by default all that the sweep measures
    sweep=NAME       the sweep whose engines are checked (spec_methods)
    json=true        the findings and the reading they rest on, as JSON
    record=FILE      also write the reading of this host to a file
    replay=FILE      check a reading from a file instead of this host

Exit codes: 0 nothing keeps an engine from being started, 2 bad input, 5 something does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from pipeline.config import read_command_line
from pipeline.console import console_for, fail
from pipeline.errors import (
    EXIT_NO_INFRASTRUCTURE,
    EXIT_OK,
    InfrastructureError,
    InputError,
    PipelineError,
)
from pipeline.execution.host import detect_platform
from pipeline.host.look import read_host
from pipeline.host.reading import HostReading
from pipeline.plan import EngineGroup, make_plan
from pipeline.preflight import check_host, known_reference, written_folders
from pipeline.preflight.checkpoint import Examined, examine
from pipeline.preflight.demand import demand_of
from pipeline.preflight.findings import Finding, stopped
from pipeline.preflight.report import PreflightReport, rendered
from pipeline.prompts import load_prompts
from pipeline.spec import SweepConfig
from pipeline.verbs import options

USAGE = (
    "python -m pipeline.preflight [platform=NAME] [model=NAME] [sweep=NAME] [json=true]"
    " [record=FILE] [replay=FILE]"
)
_KEYS = ("platform", "model", "sweep", "json", "record", "replay")


class ReadingFileError(InputError):
    """A file that holds no reading of a host."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            problem, where=str(path), allowed="what record=FILE wrote", remedy="record it again"
        )


class UnwritableReadingError(InfrastructureError):
    """A reading that cannot be kept."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"it cannot be written ({error.strerror})",
            where=str(path),
            remedy="choose another place with record=FILE",
        )


def main(argv: Sequence[str]) -> int:
    """Check, tell, and say in the exit code whether anything stops."""
    if argv and argv[0] in ("-h", "--help", "help"):
        sys.stdout.write(f"{__doc__}\n")
        return EXIT_OK
    try:
        given = _given(argv)
        report = _report(_sweep(given), _host(given))
    except PipelineError as error:
        fail(str(error))
        return error.exit_code
    if given.get("json") == "true":
        sys.stdout.write(report.model_dump_json(indent=1) + "\n")
    else:
        console_for(sys.stdout).print(rendered(report))
    return EXIT_NO_INFRASTRUCTURE if stopped(report.findings) else EXIT_OK


def _given(argv: Sequence[str]) -> dict[str, str]:
    words, given = options(argv, _KEYS, USAGE)
    if words:
        raise InputError(f"'{words[0]}' is not of the form key=value", allowed=USAGE)
    if given.get("json", "true") not in ("true", "false"):
        raise InputError(f"'{given['json']}' is neither", where="json", allowed="true or false")
    return given


def _sweep(given: Mapping[str, str]) -> SweepConfig:
    words = [f"+sweep={given.get('sweep', 'spec_methods')}"]
    words += [f"{key}={given[key]}" for key in ("platform", "model") if key in given]
    config = read_command_line(words, detect_platform)
    assert config is not None  # None answers Hydra's own flags, of which there are none here
    return config


def _host(given: Mapping[str, str]) -> HostReading:
    if "replay" in given:
        return _replayed(Path(given["replay"]))
    host = read_host((*written_folders(), Path.cwd()))
    if "record" in given:
        path = Path(given["record"])
        try:
            path.write_text(host.model_dump_json(indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise UnwritableReadingError(path, error) from error
    return host


def _replayed(path: Path) -> HostReading:
    try:
        return HostReading.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ReadingFileError(path, f"it cannot be read ({error.strerror})") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ReadingFileError(
            path, f"{where}: {first['msg']}" if where else first["msg"]
        ) from error


def _report(config: SweepConfig, host: HostReading) -> PreflightReport:
    prompts = {d.name: load_prompts(d, config.measure.max_tokens) for d in config.datasets}
    groups = make_plan(
        config, prompts, lambda reference, revision: f"{reference}@{revision}"
    ).groups
    return PreflightReport(
        sweep=config.name,
        platform=config.platform.name,
        engines=tuple(group.id for group in groups),
        findings=tuple(_findings(groups, host)),
        reference=known_reference(host),
        host=host,
    )


def _findings(groups: Sequence[EngineGroup], host: HostReading) -> Iterable[Finding]:
    """Each once: the engines of a model share a host and mostly a checkpoint."""
    sustained = known_reference(host)
    looked: dict[str, Examined] = {}
    found: dict[Finding, None] = {}
    for group in groups:
        # K changes nothing that a preflight looks at.
        key = f"{group.model} {group.method}"
        if key in looked:
            continue
        looked[key] = examine(group.engine)
        demand = demand_of(group.engine, group.resources, looked[key].weights_bytes)
        found.update(dict.fromkeys(looked[key].findings))
        found.update(dict.fromkeys(check_host(demand, host, sustained)))
    return found


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
