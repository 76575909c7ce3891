"""With the real tokenizer of the zoo's target."""

from __future__ import annotations

from pathlib import Path

from pipeline.execution.events import Tokenised, TokeniseJob
from pipeline.execution.tokenise import tokenise
from pipeline.prompts import Prompt, PromptSet
from pipeline.spec import SweepConfig


def of_text(sweep: SweepConfig, text: str, system: str | None = None, **model: object) -> Tokenised:
    prompt = Prompt(id="one", category="x", text=text, max_tokens=16)
    prompts = PromptSet(name="mine", system=system, prompts=(prompt,), digest="")
    changed = sweep.models[0].model_copy(update=model)
    return tokenise(TokeniseJob(model=changed, prompt_sets=(prompts,), measure=sweep.measure))


def test_every_prompt_and_both_warm_ups_are_encoded(tokens: Tokenised, sweep: SweepConfig) -> None:
    assert tokens.error is None
    assert len(tokens.datasets["echo"]) == 4
    assert len(tokens.warmup) == len(sweep.measure.warmup)
    assert {job.max_tokens for job in tokens.warmup} == {sweep.measure.warmup_tokens}


def test_the_chat_template_frames_each_prompt_once(tokens: Tokenised) -> None:
    start_of_turn = 1  # <|im_start|>
    for job in tokens.datasets["echo"]:
        # The template's own system turn, the user's, and the one the model is to continue.
        assert job.token_ids[0] == start_of_turn
        assert job.token_ids.count(start_of_turn) == 3


def test_a_system_text_changes_the_tokens(sweep: SweepConfig) -> None:
    plain = of_text(sweep, "Hello.").datasets["mine"]
    assert of_text(sweep, "Hello.", system="Be brief.").datasets["mine"] != plain


def test_a_prompt_that_does_not_fit_is_told_before_any_engine_starts(sweep: SweepConfig) -> None:
    error = of_text(sweep, "word " * 3000).error
    assert error is not None
    assert "dataset mine" in error
    assert "prompt one" in error
    assert "max_model_len" in error


def test_a_checkpoint_without_a_chat_template_is_told(sweep: SweepConfig, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    error = of_text(sweep, "Hello.", checkpoint=str(tmp_path)).error
    assert error is not None
    assert "chat template cannot be used" in error
