from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from pipeline import zoo
from pipeline.zoo import storage
from pipeline.zoo.errors import TamperedFileError, UnknownCheckpointError
from pipeline.zoo.target import WEIGHTS_SHA256


def test_the_weights_are_the_known_ones(target_folder: Path) -> None:
    assert storage.sha256_of(target_folder / "model.safetensors") == WEIGHTS_SHA256
    assert zoo.digest_of(zoo.TARGET) == WEIGHTS_SHA256


def test_a_user_turn_is_rendered_as_the_model_was_taught(target_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(target_folder)
    chat = [{"role": "user", "content": "Hi"}]

    rendered = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)

    assert rendered == (
        "<|im_start|>system\n"
        "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokenizer.eos_token == "<|im_end|>"


@pytest.mark.parametrize(
    "text", ["In 2024: 123,456 apples\n\tdef f(a1):\n        return 3.14", "naïve café 日本 🙂"]
)
def test_text_survives_the_tokenizer_and_digits_stand_alone(target_folder: Path, text: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(target_folder)

    ids = tokenizer(text)["input_ids"]

    assert tokenizer.decode(ids) == text
    assert not any(
        sum(c.isdigit() for c in token) > 1 for token in tokenizer.convert_ids_to_tokens(ids)
    )


def test_the_converted_model_answers_sensibly(target_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(target_folder)
    model = AutoModelForCausalLM.from_pretrained(target_folder, dtype=torch.bfloat16)
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )

    answer = model.generate(**prompt, max_new_tokens=12)[0, prompt["input_ids"].shape[1] :]

    assert tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"


def test_a_second_call_finds_the_checkpoint_without_importing_torch(
    cache: Path, target_folder: Path
) -> None:
    program = (
        "import sys; from pathlib import Path; from pipeline import zoo;"
        f"print(zoo.materialise(zoo.TARGET, cache_dir=Path({str(cache)!r})));"
        "assert not {'torch', 'transformers', 'gguf'} & set(sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (done.returncode, done.stdout.strip()) == (0, str(target_folder)), done.stderr


def test_a_checkpoint_altered_in_the_cache_is_refused(tmp_path: Path, target_folder: Path) -> None:
    copy = tmp_path / "zoo" / target_folder.name
    copy.mkdir(parents=True)
    for path in target_folder.iterdir():
        (copy / path.name).symlink_to(path)
    (copy / "config.json").unlink()
    config = json.loads((target_folder / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"rope_theta": 1.0}))

    with pytest.raises(TamperedFileError, match=r"config\.json"):
        zoo.materialise(zoo.TARGET, cache_dir=tmp_path)


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownCheckpointError, match="did you mean 'smollm2-135m-instruct'"):
        zoo.materialise("smollm2-135m-instuct", cache_dir=tmp_path)


def test_names_begin_with_the_target_and_each_has_a_digest_of_its_own() -> None:
    assert zoo.names()[0] == zoo.TARGET
    assert len({zoo.digest_of(name) for name in zoo.names()}) == len(zoo.names())
