"""`python -m pipeline.checkpoints VERB ...`, for safetensors checkpoints on disk.

    register-mtp FOLDER [--check | --dry-run | --undo] [source=FOLDER] [extra=FILE]
                 [prefix=mtp.] [wins=extra|index]
        put the MTP head that lies in an extra file into the index, so that engines load it

    build-hybrid int4=FOLDER fp8=FOLDER out=FOLDER [--dry-run] [prefix=mtp.]
        INT4 experts, FP8 dense layers and the head in one checkpoint; the same command resumes

Exit codes: 0 ok, 2 bad input or something is missing, 5 the machine is not able to.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from typing import get_args

from pipeline.checkpoints.build import build, rehearse
from pipeline.checkpoints.errors import UnknownWordError
from pipeline.checkpoints.head import DEFAULT_PREFIX
from pipeline.checkpoints.index import existing_folder
from pipeline.checkpoints.register import Outcome, apply, examine, revert
from pipeline.checkpoints.registration import Asked, Winner
from pipeline.checkpoints.report import build_lines, registration_lines, undone_lines
from pipeline.errors import EXIT_BAD_CONFIG, EXIT_OK, InputError, PipelineError
from pipeline.verbs import options

REGISTER_USAGE = (
    "python -m pipeline.checkpoints register-mtp FOLDER [--check | --dry-run | --undo]"
    " [source=FOLDER] [extra=FILE] [prefix=mtp.] [wins=extra|index]"
)
BUILD_USAGE = (
    "python -m pipeline.checkpoints build-hybrid int4=FOLDER fp8=FOLDER out=FOLDER [--dry-run]"
    " [prefix=mtp.]"
)
_CHECK, _DRY_RUN, _UNDO = "--check", "--dry-run", "--undo"


def main(argv: Sequence[str]) -> int:
    """Run one verb; every mistake ends as one sentence on standard error."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        sys.stdout.write(f"{__doc__}\n")
        return EXIT_OK if argv else EXIT_BAD_CONFIG
    try:
        if argv[0] not in VERBS:
            raise UnknownWordError(argv[0], sorted(VERBS), ", ".join(sorted(VERBS)))
        return VERBS[argv[0]](argv[1:])
    except PipelineError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("stopped; the same command goes on from here\n")
        return 128 + signal.SIGINT


def register_mtp(argv: Sequence[str]) -> int:
    """The verb `register-mtp`; exit code 2 says that something is missing."""
    words, given = options(argv, ("source", "extra", "prefix", "wins"), REGISTER_USAGE)
    folders, mode = _split(words, (_CHECK, _DRY_RUN, _UNDO), REGISTER_USAGE)
    if len(folders) != 1:
        raise InputError("one folder is needed", allowed=REGISTER_USAGE)
    if mode == _UNDO:
        _say(undone_lines(revert(existing_folder(folders[0]))))
        return EXIT_OK
    outcome = (examine if mode else apply)(_asked(folders[0], given))
    _say(registration_lines(outcome))
    return EXIT_BAD_CONFIG if _is_missing(outcome, mode) else EXIT_OK


def build_hybrid(argv: Sequence[str]) -> int:
    """The verb `build-hybrid`."""
    words, given = options(argv, ("int4", "fp8", "out", "prefix"), BUILD_USAGE)
    others, mode = _split(words, (_DRY_RUN,), BUILD_USAGE)
    if others or not {"int4", "fp8", "out"} <= set(given):
        raise InputError("int4=, fp8= and out= are needed", allowed=BUILD_USAGE)
    run = rehearse if mode else build
    built = run(
        existing_folder(given["int4"]),
        existing_folder(given["fp8"]),
        given["out"],
        given.get("prefix", DEFAULT_PREFIX),
    )
    _say(build_lines(built))
    lost = built.head is not None and built.head.registration.missing
    return EXIT_BAD_CONFIG if lost else EXIT_OK


VERBS: dict[str, Callable[[Sequence[str]], int]] = {
    "register-mtp": register_mtp,
    "build-hybrid": build_hybrid,
}


def _split(words: Sequence[str], flags: Sequence[str], usage: str) -> tuple[list[str], str]:
    """The words that are no flags, and the one flag or an empty text."""
    chosen = [word for word in words if word.startswith("-")]
    for word in chosen:
        if word not in flags:
            raise UnknownWordError(word, flags, usage)
    if len(chosen) > 1:
        raise InputError(f"{' and '.join(chosen)} do not go together", allowed=usage)
    return [word for word in words if not word.startswith("-")], (chosen or [""])[0]


def _asked(folder: str, given: dict[str, str]) -> Asked:
    wins = given.get("wins")
    if wins not in (None, *get_args(Winner)):
        raise InputError(f"'{wins}' cannot win", where="wins", allowed="extra or index")
    checkpoint = existing_folder(folder)
    source = existing_folder(given["source"]) if "source" in given else None
    return Asked(
        folder=checkpoint,
        extra=given.get("extra"),
        # The folder itself as its own source asks for what happens without one.
        source=None if source == checkpoint else source,
        prefix=given.get("prefix", DEFAULT_PREFIX),
        wins=wins,
    )


def _is_missing(outcome: Outcome, mode: str) -> bool:
    found = outcome.registration
    return found.missing if mode == _CHECK else bool(found.lost)


def _say(lines: Sequence[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
