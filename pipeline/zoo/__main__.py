"""`python -m pipeline.zoo VERB [key=value ...]`.

    materialise [NAME ...]         put checkpoints into the cache (all of them by default)
    build [budget=20] [work=DIR] [seed=0] [out=DIR]
                                   train all heads again; the same work folder continues
    evaluate [heads=DIR] [per_kind=8] [max_tokens=128] [engine=true] [methods=mtp,eagle3,dflash]
                                   acceptance by position, offline and in the engine

Exit codes: 0 ok, 2 bad input, 4 offline and engine disagree, 5 the machine is not able to,
130 and 143 after Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence

from pipeline.errors import EXIT_BAD_CONFIG, EXIT_OK, EXIT_REGRESSION, PipelineError
from pipeline.interrupts import Terminated, sigterm_interrupts
from pipeline.zoo.arguments import BuildArguments, EvaluateArguments, parse
from pipeline.zoo.catalogue import TARGET, materialise, names
from pipeline.zoo.errors import FileFailedError, UnknownVerbError
from pipeline.zoo.progress import timed_bar


def say(text: str) -> None:
    """One line on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def run_materialise(arguments: Sequence[str]) -> int:
    """Build the named checkpoints, or all, and print their folders."""
    for name in arguments or names():
        say(f"{name} {materialise(name)}")
    return EXIT_OK


def run_build(arguments: Sequence[str]) -> int:
    """Train the heads and copy them to `out`."""
    asked = parse(BuildArguments, arguments)
    # Read when torch is loaded. Waiting threads sleep: on a busy machine, spinning ones take the
    # time of the very thread that they wait for.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    base = materialise(TARGET)
    from pipeline.zoo.build import build, read_parts, tokens_in

    with timed_bar("zoo build", asked.budget * 60) as tell:
        for method, path, trainer in build(
            asked.work_folder(), base, asked.budget * 60, asked.seed, tell
        ):
            asked.out.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, asked.out / path.name)
            say(f"{method}: {trainer.step} steps, loss {trainer.loss:.3f}, {asked.out / path.name}")
    sizes = tokens_in(read_parts(asked.work_folder()))
    say(f"text: {sizes['samples']} samples, {sizes['answer_tokens']} answer tokens")
    return EXIT_OK


def run_evaluate(arguments: Sequence[str]) -> int:
    """Print acceptance both ways; fail where they disagree."""
    asked = parse(EvaluateArguments, arguments)
    from pipeline.zoo.evaluate import TOLERANCE, evaluate, lines

    agreed = True
    for comparison in evaluate(asked, materialise(TARGET)):
        for line in lines(comparison):
            say(line)
        agreed = agreed and comparison.agrees()
        for gap in comparison.gaps():
            if not gap.tolerable:
                say(
                    f"{comparison.method}: offline and engine differ by {gap.size:.3f} at position "
                    f"{gap.position}, {TOLERANCE} is allowed"
                )
    return EXIT_OK if agreed else EXIT_REGRESSION


VERBS: dict[str, Callable[[Sequence[str]], int]] = {
    "materialise": run_materialise,
    "build": run_build,
    "evaluate": run_evaluate,
}


def main(arguments: Sequence[str]) -> int:
    """Run one verb; every mistake ends as one sentence on standard error."""
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        say(__doc__ or "")
        return EXIT_OK if arguments else EXIT_BAD_CONFIG
    try:
        if arguments[0] not in VERBS:
            raise UnknownVerbError(arguments[0], VERBS)
        with sigterm_interrupts():
            return VERBS[arguments[0]](arguments[1:])
    except (KeyboardInterrupt, Terminated) as ended:
        sys.stderr.write("interrupted; a build goes on with the same command\n")
        return 128 + (signal.SIGTERM if isinstance(ended, Terminated) else signal.SIGINT)
    except PipelineError as error:
        return _refuse(error)
    except OSError as error:
        return _refuse(FileFailedError(error))


def _refuse(error: PipelineError) -> int:
    sys.stderr.write(f"{error}\n")
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
