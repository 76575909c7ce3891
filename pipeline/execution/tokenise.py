"""Prompts to token ids, once per model, so that every method is given the same ones."""

from __future__ import annotations

from typing import Any

from pipeline.errors import InputError, PipelineError
from pipeline.execution.events import Tokenised, TokeniseJob
from pipeline.execution.messages import PromptJob
from pipeline.prompts import Prompt, PromptSet
from pipeline.sources import resolve
from pipeline.spec import ModelSpec


class ChatTemplateError(InputError):
    """The model's tokenizer cannot render a chat."""

    def __init__(self, model: str, problem: str) -> None:
        super().__init__(
            f"its chat template cannot be used ({problem})",
            where=f"model {model}",
            allowed="a checkpoint whose tokenizer has a chat template",
        )


class PromptTooLongError(InputError):
    """A prompt and its answer do not fit into the model's context."""

    def __init__(self, model: str, dataset: str, prompt: Prompt, tokens: int, limit: int) -> None:
        super().__init__(
            f"prompt {prompt.id} has {tokens} tokens and may add {prompt.max_tokens}, together"
            f" more than {limit}",
            where=f"dataset {dataset}, model {model}",
            remedy="raise the model's engine_args.max_model_len, or lower measure.max_tokens",
        )


def tokenise(job: TokeniseJob) -> Tokenised:
    """Render and encode every prompt of a model.

    A mistake of the user's comes back as `Tokenised.error`, since it has to cross processes.
    """
    try:
        tokenizer = _tokenizer(job.model)
        warmup = tuple(
            Prompt(
                id=f"warmup-{i}", category="warmup", text=text, max_tokens=job.measure.warmup_tokens
            )
            for i, text in enumerate(job.measure.warmup)
        )
        aside = PromptSet(name="warmup", system=None, prompts=warmup, digest="")
        return Tokenised(
            model=job.model.name,
            datasets={s.name: _encode(tokenizer, job.model, s) for s in job.prompt_sets},
            warmup=_encode(tokenizer, job.model, aside),
        )
    except PipelineError as error:
        return Tokenised(model=job.model.name, datasets={}, warmup=(), error=str(error))


def _tokenizer(model: ModelSpec) -> Any:
    from transformers import AutoTokenizer  # takes seconds, and only one task needs it

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            resolve(model.checkpoint),
            revision=model.revision,
            trust_remote_code=model.trust_remote_code,
        )
    except Exception as error:
        # Its files may be absent, damaged, or of a kind whose reader raises what it likes.
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ChatTemplateError(model.name, first[:200]) from error
    if not tokenizer.chat_template:
        raise ChatTemplateError(model.name, "there is none")
    return tokenizer


def _encode(tokenizer: Any, model: ModelSpec, prompt_set: PromptSet) -> tuple[PromptJob, ...]:
    limit = model.engine_args.get("max_model_len")
    jobs = []
    for prompt in prompt_set.prompts:
        ids = _render(tokenizer, model, prompt_set.system, prompt.text)
        if isinstance(limit, int) and len(ids) + prompt.max_tokens > limit:
            raise PromptTooLongError(model.name, prompt_set.name, prompt, len(ids), limit)
        jobs.append(
            PromptJob(
                prompt_id=prompt.id,
                category=prompt.category,
                token_ids=tuple(ids),
                max_tokens=prompt.max_tokens,
            )
        )
    return tuple(jobs)


def _render(tokenizer: Any, model: ModelSpec, system: str | None, text: str) -> list[int]:
    messages = [{"role": "system", "content": system}] if system is not None else []
    messages.append({"role": "user", "content": text})
    switch = {} if model.thinking is None else {"enable_thinking": model.thinking}
    try:
        rendered = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=False, **switch
        )
    except Exception as error:
        raise ChatTemplateError(model.name, str(error)[:200]) from error
    # The template writes the special tokens itself; adding them again would double the first.
    return list(tokenizer.encode(rendered, add_special_tokens=False))
