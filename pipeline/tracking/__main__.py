"""`python -m pipeline.tracking replay OUTPUT [uri=...]`: tell MLflow the records of a sweep."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline import console
from pipeline.errors import EXIT_OK, InputError, PipelineError
from pipeline.outputs import Outputs
from pipeline.passwords import without_password
from pipeline.tracking import replay, store_uri
from pipeline.verbs import helped, options

USAGE = "python -m pipeline.tracking replay OUTPUT [uri=...]"


def main(argv: Sequence[str]) -> int:
    """Replay one sweep's folder; returns the exit code."""
    if helped(argv, USAGE):
        return EXIT_OK
    try:
        folder, uri = _parse(argv)
        outputs = Outputs(folder.parent, folder.name, console.warn_set_aside)
        cells = replay(outputs, uri)
    except PipelineError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(f"{cells} cells of {folder} are in {without_password(store_uri(uri))}\n")
    return EXIT_OK


def _parse(argv: Sequence[str]) -> tuple[Path, str | None]:
    words, given = options(argv, ("uri",), USAGE)
    if len(words) != 2 or words[0] != "replay":
        raise InputError("one verb and one folder are needed", allowed=USAGE)
    folder = Path(words[1]).resolve()
    if not folder.is_dir():
        raise InputError(
            "this is a file, not a folder" if folder.exists() else "there is no such folder",
            where=words[1],
            remedy="give the folder of a sweep, such as outputs/spec_methods",
        )
    return folder, given.get("uri")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
