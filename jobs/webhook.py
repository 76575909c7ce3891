"""Webhooks: a message as the JSON that Slack, Discord and Teams take, or whole for the others."""

from __future__ import annotations

import asyncio
import os
from typing import Literal

import httpx
from pydantic import JsonValue

from jobs.findings import NightVerdict
from jobs.message import Message, markdown
from jobs.suite import Channel, WebhookChannel
from jobs.trouble import RejectedError, UndeliveredError

# The services' own limits, in characters.
_SLACK_HEADER, _SLACK_SECTION, _SLACK_BLOCKS = 150, 3000, 50
_DISCORD_CONTENT, _DISCORD_EMBED = 2000, 4096
_TEAMS_TEXT, _TEAMS_BLOCKS = 2000, 10
_TOO_MANY, _REFUSED = 429, range(400, 500)

Shape = Literal["slack", "discord", "teams", "plain"]


def named(channel: WebhookChannel) -> str:
    """The channel in words that hold no secret."""
    return f"webhook {channel.url_env}"


def variables(channel: Channel) -> tuple[str, ...]:
    """The environment variables that the channel takes its secrets from."""
    return (channel.url_env,) if isinstance(channel, WebhookChannel) else ()


def payload(shape: Shape, message: Message, verdict: NightVerdict | None) -> JsonValue:
    """The body to post."""
    match shape:
        case "slack":
            return _slack(message)
        case "discord":
            return _discord(message)
        case "teams":
            return _teams(message)
        case "plain":
            return {
                "title": message.title,
                "markdown": markdown(message),
                "exit_code": message.exit_code,
                "verdict": verdict.model_dump(mode="json") if verdict is not None else None,
            }


def post(channel: WebhookChannel, body: JsonValue) -> None:
    """Post once. The time limit is on the whole exchange, so a receiver that trickles ends too.

    Raises:
        UndeliveredError: nobody there, too slow, or a status that may pass.
        RejectedError: a status that will not, or an address that is none.
    """
    where = named(channel)
    try:
        asyncio.run(_post(os.environ[channel.url_env], body, channel.timeout_s, where))
    except TimeoutError as error:
        raise UndeliveredError(where, f"no answer within {channel.timeout_s:g} s") from error
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise RejectedError(where, "the variable does not hold an http(s) address") from error
    except httpx.HTTPError as error:  # whose text may hold the address
        raise UndeliveredError(where, type(error).__name__) from error


async def _post(url: str, body: JsonValue, timeout_s: float, where: str) -> None:
    async with asyncio.timeout(timeout_s), httpx.AsyncClient(timeout=None) as client:
        answer = await client.post(url, json=body)
    if answer.is_success:
        return
    problem = f"status {answer.status_code}"
    if answer.status_code in _REFUSED and answer.status_code != _TOO_MANY:
        raise RejectedError(where, problem)
    raise UndeliveredError(where, problem, _wait_s(answer.headers.get("retry-after", "")))


def _wait_s(text: str) -> float | None:
    """Seconds of a Retry-After header; its other form, a date, is not used by these services."""
    try:
        return max(0.0, float(text))
    except ValueError:
        return None


def _slack(message: Message) -> JsonValue:
    """Blocks of Slack's own markup, in which three characters have to be escaped."""
    blocks: list[JsonValue] = [
        {
            "type": "header",
            "text": {"type": "plain_text", "text": _cut(message.title, _SLACK_HEADER)},
        }
    ]
    for section in message.sections:
        lines = [f"• *{_slack_text(one.about)}*: {_slack_text(one.said)}" for one in section.lines]
        blocks.append(_slack_block("\n".join([f"*{_slack_text(section.heading)}*", *lines])))
    if footer := "\n".join(message.footer).strip():  # an empty text has the message refused
        blocks.append(_slack_block(_slack_text(footer)))
    return {"text": _slack_text(message.title), "blocks": blocks[:_SLACK_BLOCKS]}


def _slack_block(text: str) -> JsonValue:
    return {"type": "section", "text": {"type": "mrkdwn", "text": _cut(text, _SLACK_SECTION)}}


def _slack_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _discord(message: Message) -> JsonValue:
    """The title as content, the rest as an embed; mentions in the text call nobody."""
    rest = markdown(message).partition("\n\n")[2]
    return {
        "content": _cut(message.title, _DISCORD_CONTENT),
        "embeds": [{"description": _cut(rest, _DISCORD_EMBED)}] if rest.strip() else [],
        "allowed_mentions": {"parse": []},
    }


def _teams(message: Message) -> JsonValue:
    """An adaptive card, which is what a Teams workflow takes."""
    blocks: list[JsonValue] = [_teams_block(message.title, weight="Bolder", size="Medium")]
    for section in message.sections[:_TEAMS_BLOCKS]:
        lines = [f"- **{one.about}**: {one.said}" for one in section.lines]
        blocks.append(_teams_block(section.heading, weight="Bolder"))
        blocks.append(_teams_block("\n".join(lines)))
    if footer := "\n\n".join(message.footer).strip():
        blocks.append(_teams_block(footer, isSubtle=True))
    card: JsonValue = {
        "type": "AdaptiveCard",
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "version": "1.4",
        "body": blocks,
    }
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "content": card}]}


def _teams_block(text: str, **style: JsonValue) -> JsonValue:
    return {"type": "TextBlock", "text": _cut(text, _TEAMS_TEXT), "wrap": True, **style}


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
