"""What a suite is: the sweep of every night, what counts as a change, its hours, who is told.

A suite is a file in `conf/suite/`. Addresses and passwords are never in it: a channel names the
environment variables that hold them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from pipeline.spec import Record
from pipeline.values import Name, PositiveInt, PositiveNumber

# Every suite has a folder here.
NIGHTS = Path("outputs") / "nights"

# Below this many a slow drift is not looked for.
MIN_DRIFT_NIGHTS = 10
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def _a_name(value: object) -> object:
    """Whatever else stands here may be the secret itself, so it is not repeated."""
    if isinstance(value, str) and _VARIABLE.fullmatch(value):
        return value
    raise ValueError(
        "it must be the name of an environment variable (capital letters, digits, underscores),"
        " which holds the secret; what stands here is not shown, since it may be the secret itself"
    )


Variable = Annotated[str, BeforeValidator(_a_name)]
Share = Annotated[float, Field(gt=0, lt=1)]


class PerSignal(Record):
    """One relative size for each signal that is watched.

    Attributes:
        speedup: a method's decode speed over its baseline's, measured beside it.
        speed: a baseline's own decode speed, with all that the machine does to it.
        length: acceptance length.
    """

    speedup: Share
    speed: Share
    length: Share


class NightRule(Record):
    """When a night is called different from those before it.

    Attributes:
        effects: the smallest changes worth a message; the interval must lie beyond them.
        assumed: spread of a signal from night to night, a standard deviation relative to it, until
            the suite's own nights have shown theirs.
        assumed_nights: how many nights of evidence that assumption is worth.
        screen: level of the interval at which a cell is measured again.
        confidence: level of the interval at which it is called.
        windows: how many nights are pooled; a small change takes more than one.
        nights: good nights that the baseline pools.
        min_nights: with fewer nothing is compared.
        drift_nights: the nights in which a slow drift is looked for.
        drift_effect: the smallest drift over those nights worth a message.
        drift_confidence: level of a drift's interval.
        floor_length: a cell is no baseline unless its acceptance length is above this.
        outputs: share of a target's steady answers that may differ before it counts as changed.
    """

    effects: PerSignal = PerSignal(speedup=0.0075, speed=0.05, length=0.02)
    assumed: PerSignal = PerSignal(speedup=0.012, speed=0.05, length=0.005)
    assumed_nights: PositiveInt = 8
    screen: Share = 0.80
    confidence: Share = 0.99
    windows: tuple[PositiveInt, ...] = Field(default=(1, 3), min_length=1)
    nights: PositiveInt = 28
    min_nights: PositiveInt = 3
    drift_nights: PositiveInt = 28
    drift_effect: Share = 0.01
    drift_confidence: Share = 0.99
    floor_length: float = Field(default=1.0, ge=1)
    outputs: Share = 0.05

    @model_validator(mode="after")
    def _something_is_called(self) -> NightRule:
        if self.nights < self.min_nights:
            raise ValueError(
                f"nothing would ever be compared: a baseline pools {self.nights} nights (nights)"
                f" and needs {self.min_nights} (min_nights); allowed: nights >= min_nights"
            )
        if self.screen > self.confidence:
            raise ValueError(
                f"what is called would not be measured again first: screen {self.screen:g} is above"
                f" confidence {self.confidence:g}; allowed: screen <= confidence"
            )
        if self.drift_nights < MIN_DRIFT_NIGHTS:
            raise ValueError(
                f"a drift would never be looked for in {self.drift_nights} nights (drift_nights);"
                f" allowed: {MIN_DRIFT_NIGHTS} or more"
            )
        return self


class ConsoleChannel(Record):
    """The command's own standard output, which systemd and cron keep."""

    kind: Literal["console"]


class FileChannel(Record):
    """A folder that always holds the last message, as Markdown and as a page."""

    kind: Literal["file"]
    folder: str = Field(min_length=1)


class WebhookChannel(Record):
    """A service that takes a message as JSON.

    Attributes:
        url_env: the environment variable that holds the address, which is a secret.
    """

    kind: Literal["webhook"]
    shape: Literal["slack", "discord", "teams", "plain"]
    url_env: Variable
    tries: PositiveInt = 4
    timeout_s: PositiveNumber = 10.0


class MailChannel(Record):
    """A mail server.

    Attributes:
        security: `starttls` and `tls` check the server's certificate.
        user_env, password_env: the environment variables for a server that wants a login.
    """

    kind: Literal["mail"]
    host: str = Field(min_length=1)
    port: PositiveInt = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    sender: str = Field(min_length=3)
    to: tuple[str, ...] = Field(min_length=1)
    user_env: Variable | None = None
    password_env: Variable | None = None
    tries: PositiveInt = 4
    timeout_s: PositiveNumber = 30.0

    @model_validator(mode="after")
    def _whole_login(self) -> MailChannel:
        if (self.user_env is None) != (self.password_env is None):
            raise ValueError("user_env and password_env are a login together; name both or neither")
        return self


Channel = Annotated[
    ConsoleChannel | FileChannel | WebhookChannel | MailChannel, Field(discriminator="kind")
]


class Suite(Record):
    """One suite, complete.

    Attributes:
        command: what `python -m pipeline` would be given, its sweep first.
        budget_hours: what the estimate of a night must fit into.
        priority: patterns of cell labels (`*/mtp-*/chat/*`), the dearest first; what matches none
            goes before nothing and is the first left out.
        starts: how often a night starts each engine to measure its cells. A start shifts all that
            it measures, by how it lies in memory, which no number of repeats takes away.
        measure_again: how often a cell that looks changed is measured again the same night.
        quiet: how often a night without news is told in one line.
    """

    name: Name
    command: tuple[str, ...] = Field(min_length=1)
    budget_hours: PositiveNumber
    priority: tuple[str, ...] = ()
    starts: PositiveInt = 1
    measure_again: PositiveInt = 2
    rule: NightRule = NightRule()
    tell: tuple[Channel, ...] = Field(min_length=1)
    quiet: Literal["always", "weekly", "never"] = "weekly"
