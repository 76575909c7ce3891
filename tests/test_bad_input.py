import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pipeline.arguments import check_arguments
from pipeline.config import read_command_line
from pipeline.errors import EXIT_BAD_CONFIG, InputError
from pipeline.installed import installed_vllm
from pipeline.plan import make_plan
from pipeline.prompts import load_prompts
from pipeline.sources import identity
from tests.grids import user_folder

ROOT = Path(__file__).resolve().parents[1]
# The smallest grid, so that every case composes as little as it can.
SMALL = ("+sweep=smoke", "model=smollm2-135m", "method=none", "dataset=chat")
MINE = ("+sweep=smoke", "method=none", "dataset=chat", "model=mine")
NGRAM = ("+sweep=smoke", "model=smollm2-135m", "method=ngram", "dataset=chat")
MODEL = "name: mine\ncheckpoint: maker/mine\n"
DATASET = "name: mine\nsource: {kind: bundled, file: chat.jsonl}\nmax_tokens: 16\n"
METHOD = "name: mine\nkind: mtp\nk: [1]\n"
SWEEP = """# @package _global_
sweep:
  name: mine
  axes:
    model: [smollm2-135m]
    method: [none]
    dataset: [chat]
    concurrency: [1]
"""
VLLM = installed_vllm()
# Words of the libraries underneath, which mean nothing to a user.
JARGON = (
    "Input should be",
    "Error merging",
    "Error executing",
    "HYDRA_FULL_ERROR",
    "pydantic",
    "OmegaConf",
    "Traceback",
    "valid tuple",
    "discriminator",
    "primary config",
    "unable to parse",
)


@dataclass(frozen=True)
class Case:
    """A mistake: what is typed, with what files, and the words its sentence must hold."""

    name: str
    argv: tuple[str, ...]
    words: tuple[str, ...]
    files: Mapping[str, str | bytes] = field(default_factory=dict)


def small(name: str, argument: str, *words: str) -> Case:
    return Case(name, (*SMALL, argument), words)


def ngram(name: str, argument: str, *words: str) -> Case:
    return Case(name, (*NGRAM, argument), words)


def bare(name: str, argument: str, *words: str) -> Case:
    return Case(name, ("+sweep=smoke", argument), words)


def my_model(name: str, text: str | bytes, *words: str) -> Case:
    return Case(name, MINE, words, {"model/mine": text})


def my_sweep(name: str, text: str, *words: str) -> Case:
    return Case(name, ("+sweep=mine",), words, {"sweep/mine": text})


def my_dataset(name: str, text: str, *words: str) -> Case:
    argv = ("+sweep=smoke", "model=smollm2-135m", "method=none", "dataset=mine")
    return Case(name, argv, words, {"dataset/mine": text})


def my_method(name: str, text: str, *words: str) -> Case:
    argv = ("+sweep=smoke", "model=smollm2-135m", "method=mine", "dataset=chat")
    return Case(name, argv, words, {"method/mine": text})


def jsonl(name: str, content: str | bytes, *words: str) -> Case:
    """A dataset whose file is `prompts.jsonl` in the user's folder, written as it is."""
    spec = "name: mine\nsource: {kind: path, path: FOLDER/prompts.jsonl}\nmax_tokens: 16\n"
    case = my_dataset(name, spec, *words)
    return Case(name, case.argv, words, {**case.files, "prompts.jsonl": content})


CASES = (
    # --- a search without what it measures against
    Case(
        "a search over K without plain decoding",
        ("+sweep=choose_k", "model=smollm2-135m", "method=mtp", "dataset=chat"),
        ("sweep.axes.method", "plain decoding", "method=[none,mtp]"),
    ),
    Case(
        "a search over K at several loads",
        ("+sweep=choose_k", "model=smollm2-135m", "sweep.axes.concurrency=[1,8]"),
        ("sweep.axes.concurrency", "1, 8", "sweep.axes.concurrency=[1]"),
    ),
    # --- unknown keys, at every level, with the nearest known one
    small("an unknown key at the root", "dry_rum=true", "dry_rum", "dry_run"),
    small("a misspelt group", "modle=smollm2-135m", "modle", "did you mean 'model'"),
    small("an unknown key of the sweep", "sweep.nme=a", "'nme'", "did you mean 'name'"),
    bare("an unknown axis", "sweep.axes.methd=[none]", "'methd'", "did you mean 'method'"),
    small("an unknown key of the platform", "platform.devic=cpu", "devic", "'device'"),
    small("an unknown key of the assumptions", "platform.assume.tok_s=1", "tok_s", "decode_tok_s"),
    small("an unknown key of the measurement", "measure.repeat=3", "'repeat'", "'repeats'"),
    small("an unknown key of sampling", "measure.sampling.temprature=1", "temprature", "temperatu"),
    small("an unknown key of a model", "model.chekpoint=a/b", "chekpoint", "'checkpoint'"),
    small("an unknown key of resources", "model.resources.gpu=1", "'gpu'", "'gpus'"),
    small("an unknown key of a drafter", "model.drafters.mtp.chekpoint=a", "mtp", "'checkpoint'"),
    ngram("an unknown key of a method", "method.prompt_lookup_mn=1", "_mn'", "_min'"),
    small("an unknown key of a dataset", "dataset.max_token=1", "max_token'", "'max_tokens'"),
    small("an unknown key of a source", "dataset.source.fil=a", "'fil'", "'file'"),
    small("an unknown key of tracking", "tracking.url=a", "'url'", "did you mean 'uri'"),
    small("an unknown key of Ray's", "ray.adress=a", "adress", "'address'"),
    small("an unknown key that is forced in", "++measure.repeat=3", "'repeat'", "'repeats'"),
    # --- values
    bare("a negative K", "sweep.axes.k=[-1]", "sweep.axes.k[0]", "-1", "greater than 0"),
    bare("a K of zero", "sweep.axes.k=0", "sweep.axes.k[0]", "greater than 0"),
    bare("a K that is text", "sweep.axes.k=[four]", "'four'", "a whole number"),
    bare("a K that is a fraction", "sweep.axes.k=[1.5]", "1.5", "a whole number"),
    bare("a K that is a switch", "sweep.axes.k=[true]", "True", "a whole number"),
    bare("a K inside a second list", "sweep.axes.k=[[1]]", "[1]", "a whole number"),
    bare("a negative K for one method", "sweep.axes.k={ngram:[-1]}", "k.ngram[0]", "greater than"),
    bare("a K range", "sweep.axes.k=range(1,4)", "range(1,4)", "sweep.axes.k=[a,b]"),
    bare("a K inside a list by a method's name", "sweep.axes.k.ngram=2", "'ngram'", "k={ngram:"),
    bare("a concurrency of zero", "sweep.axes.concurrency=[0]", "concurrency[0]", "greater than 0"),
    bare("a concurrency in words", "sweep.axes.concurrency=lots", "'lots'", "a whole number"),
    bare("an axis that is null", "sweep.axes.concurrency=null", "None", "a list"),
    bare("an axis of a number", "sweep.axes.dataset=[5]", "dataset[0]", "a text"),
    bare("an axis with a path", "sweep.axes.method=[../x]", "'../x'", "letters"),
    small("a switch that is neither", "dry_run=maybe", "'maybe'", "true or false"),
    small("an output folder of nothing", "output_dir=", "output_dir", "at least 1 character"),
    small("an output folder of a number", "output_dir=5", "output_dir", "a text"),
    small("a negative temperature", "measure.sampling.temperature=-1", "-1", "at least 0"),
    small("a temperature in words", "measure.sampling.temperature=hot", "'hot'", "a number"),
    small("an infinite temperature", "measure.sampling.temperature=inf", "inf", "finite"),
    small("a top_p of zero", "measure.sampling.top_p=0", "top_p", "greater than 0"),
    small("a top_p above one", "measure.sampling.top_p=2", "top_p", "at most 1"),
    small("a negative top_k", "measure.sampling.top_k=-1", "top_k", "at least 0"),
    small("a seed that is a fraction", "measure.sampling.seed=0.5", "seed", "a whole number"),
    small("no repeats", "measure.repeats=0", "repeats", "greater than 0"),
    small("equal warm-up prompts", "measure.warmup=[a,a]", "warm-up", "two different"),
    small("one warm-up prompt", "measure.warmup=[a]", "warmup", "at least 2 items"),
    small("a warm-up that is no list", "measure.warmup=a", "'a'", "a list"),
    small("a section that is text", "measure.sampling=hot", "'hot'", "a mapping"),
    small("a section that is null", "measure.sampling=null", "measure.sampling", "a mapping"),
    small("a list for a mapping", "measure.engine_args=[1]", "[1]", "a mapping"),
    small("an engine argument of nan", "platform.engine_args.a=nan", "engine_args", "finite"),
    small("a device that no engine has", "platform.device=tpu", "'tpu'", "'cpu' or 'cuda'"),
    small("an engine core of no kind", "platform.engine_core=x", "'x'", "'in_process'"),
    small("a deadline of zero", "platform.start_deadline_s=0", "start_deadline_s", "greater than"),
    small("a negative number of GPUs", "platform.logical_gpus=-1", "logical_gpus", "at least 0"),
    small("a variable that is a number", "platform.env.A=1", "env.A", "a text"),
    small("a variable that holds a secret", "platform.env.HF_TOKEN=x", "HF_TOKEN", "environment"),
    small(
        "an engine argument that is a secret",
        "model.engine_args.hf_token=hf_x",
        "'hf_token'",
        "environment",
    ),
    small("a password in a variable", "platform.env.PGPASSWORD=x", "PGPASSWORD", "environment"),
    small("an engine argument of the model's", "platform.engine_args.model=x", "'model'", "vLLM"),
    small(
        "an engine argument that configures a drafter",
        "platform.engine_args.spec_method=ngram",
        "'spec_method'",
        "the method",
    ),
    small(
        "a misspelt engine argument of the platform",
        "platform.engine_args.enforce_eagre=true",
        "platform cpu: engine_args",
        "did you mean 'enforce_eager'",
    ),
    small(
        "a misspelt engine argument of the model",
        "model.engine_args.max_modle_len=99",
        "model smollm2-135m: engine_args",
        "did you mean 'max_model_len'",
    ),
    small(
        "a misspelt engine argument of a drafter",
        "model.drafters.mtp.engine_args.dtyp=half",
        "drafters.mtp.engine_args",
        "did you mean 'dtype'",
    ),
    small(
        "a misspelt drafting key",
        "model.drafters.dflash.speculative.atention_backend=FLASHINFER",
        "drafters.dflash.speculative",
        "did you mean 'attention_backend'",
    ),
    small(
        "an engine argument of another kind",
        "measure.engine_args.max_num_seqs=many",
        "measure: engine_args.max_num_seqs",
        "allowed: int",
    ),
    small(
        "acceptance that is made up",
        "model.drafters.mtp.speculative.synthetic_acceptance_length=2.0",
        "no measurement",
        "standard or block",
    ),
    small(
        "a sampler that makes acceptance up",
        "model.drafters.mtp.speculative.rejection_sample_method=synthetic",
        "no measurement",
    ),
    small(
        "a GPU generation that is a number",
        "platform.compute_capability=12.1",
        "12.1",
        "a text",
    ),
    small("a drafting key of the method's", "model.drafters.mtp.speculative.method=x", "'method'"),
    Case(
        "a cap beyond the model's context",
        ("+sweep=smoke", "dataset=echo", "measure.max_tokens=null", "dataset.max_tokens=9999"),
        ("dataset echo", "9999", "lower max_tokens"),
    ),
    small("a bundled set by a path", "dataset.source.file=../x.jsonl", "'../x.jsonl'", "letters"),
    small("tracking that is perhaps on", "tracking.enabled=perhaps", "'perhaps'", "true or false"),
    small("a sweep's name with a path", "sweep.name=../x", "'../x'", "letters"),
    ngram("a lookup whose least exceeds its most", "method.prompt_lookup_min=5", "5", "at most"),
    ngram("a method of no kind", "method.kind=ngrm", "'ngrm'", "did you mean 'ngram'"),
    small("a K for plain decoding", "method.k=[1]", "method none: k", "nothing"),
    small("no tokens to generate", "dataset.max_tokens=0", "max_tokens", "greater than 0"),
    small("a limit of no prompts", "dataset.limit=0", "limit", "greater than 0"),
    small("a source of no kind", "dataset.source.kind=hubb", "'hubb'", "did you mean 'hub'"),
    small("a digest that is too short", "dataset.sha256=abc", "'abc'", "64 hexadecimal"),
    # --- choices
    Case("no sweep", (), ("no sweep", "smoke", "+sweep=")),
    Case("only values, no sweep", ("dry_run=true",), ("no sweep", "+sweep=")),
    Case("two sweeps", ("+sweep=smoke", "+sweep=spec_methods"), ("twice", "spec_methods")),
    Case("a list of sweeps", ("+sweep=[smoke,spec_methods]",), ("sweep", "the name of one")),
    Case("a sweep without its plus", ("sweep=smoke",), ("sweep=smoke", "write +sweep=smoke")),
    Case("a sweep of null", ("+sweep=null",), ("+sweep=null", "+sweep=NAME")),
    Case("an unknown sweep", ("+sweep=smokee",), ("smokee", "did you mean 'smoke'")),
    bare("an unknown platform", "platform=cpuu", "cpuu", "did you mean 'cpu'", "dgx_spark"),
    bare("an unknown measurement", "measure=smok", "smok", "did you mean 'smoke'"),
    bare("an unknown tracking", "tracking=lcal", "lcal", "did you mean 'local'"),
    bare("an unknown model", "model=smollm", "smollm", "did you mean 'smollm2-135m'"),
    bare("an unknown method", "method=ngrm", "ngrm", "did you mean 'ngram'", "eagle3"),
    bare("an unknown dataset", "dataset=cht", "cht", "did you mean 'chat'"),
    bare("an unknown method in a list", "method=[none,ngrm]", "ngrm", "did you mean 'ngram'"),
    bare("an unknown method on the axis", "sweep.axes.method=[ngrm]", "ngrm", "'ngram'"),
    bare("a measurement of null", "measure=null", "measure=null", "measure=NAME"),
    bare("a measurement of a number", "measure=5", "measure=5", "measure=NAME"),
    bare("two measurements in a list", "measure=[smoke,standard]", "measure", "the name of one"),
    bare("a measurement that is added", "+measure=article", "write measure=article"),
    bare("a platform of nothing", "platform=", "platform=", "platform=NAME"),
    bare("a method of null", "method=null", "method=null", "method=NAME"),
    bare("a method that is a mapping", "method={a:1}", "method={a:1}", "method=NAME"),
    bare("methods in two lists", "method=[[none]]", "method=[[none]]", "method=NAME"),
    bare("methods without brackets", "method=none,ngram", "none,ngram", "method=[a,b]"),
    bare("an option placed elsewhere", "measure@x=smoke", "measure@x=smoke", "measure=NAME"),
    bare("a group taken away", "~measure", "~measure", "leave it out"),
    bare("a key taken away that is not there", "~banana", "banana", "leave ~banana out"),
    small("a key taken away that is needed", "~measure.repeats", "'repeats'", "add repeats"),
    bare("a key taken away with a value", "~measure.repeats=1", "repeats=1", "~measure.repeats"),
    bare("an axis taken away", "~sweep.axes.dataset", "'dataset'", "add dataset"),
    Case("two measurements", ("+sweep=smoke", "measure=smoke", "measure=article"), ("twice",)),
    Case(
        "an axis narrowed in two ways",
        ("+sweep=smoke", "method=ngram", "sweep.axes.method=[none]"),
        ("axis method", "method=ngram", "leave one"),
    ),
    bare("a value while no option is chosen", "method.k=[1]", "method.k", "add method=NAME"),
    Case(
        "a value while several options are chosen",
        ("+sweep=smoke", "method=[none,ngram]", "method.k=[1]"),
        ("method.k", "2 options", "method=NAME"),
    ),
    # --- empty grids
    bare("an empty K axis", "sweep.axes.k=[]", "sweep.axes.k", "at least one item"),
    bare("an empty mapping of K", "sweep.axes.k={}", "sweep.axes.k", "at least one item"),
    bare("an empty method axis", "sweep.axes.method=[]", "axes.method", "at least one item"),
    bare("an empty list of models", "model=[]", "model", "at least one name"),
    Case(
        "a grid of which nothing is left",
        ("+sweep=smoke", "method=dflash", "sweep.axes.k=[9]", "dataset=chat"),
        ("K=9", "limit of 7", "widen"),
    ),
    Case(
        "a model for GPUs on a machine without one",
        ("+sweep=smoke", "model=qwen3-30b-a3b", "method=none", "dataset=chat"),
        ("needs 1 GPU", "cpu has none", "widen"),
    ),
    Case(
        "K for a method outside the sweep",
        (*NGRAM, "sweep.axes.k={ngarm:[1]}"),
        ("'ngarm'", "did you mean 'ngram'"),
    ),
    Case(
        "K for plain decoding in the mapping",
        (*NGRAM[:2], "method=[none,ngram]", "dataset=chat", "sweep.axes.k={none:[1]}"),
        ("'none'", "allowed: ngram"),
    ),
    # --- how a command line is written
    bare("a word that is no setting", "banana", "'banana'", "key=value"),
    bare("a list without its end", "sweep.axes.k=[1", "'sweep.axes.k=[1'", "key=[a,b]"),
    bare("a text without its end", "output_dir='a", "output_dir='a", "quotes"),
    bare("a key in another alphabet", "größe=1", "größe=1", "key=value"),
    bare("an argument of two lines", "output_dir=a\nb", "'output_dir=a b'", "key=value"),
    bare("an empty argument", "", "''", "key=value"),
    small("a value without a key", "=a", "'=a'", "key=value"),
    small("a reference to nowhere", "output_dir=${nowhere}", "nowhere", "--cfg job"),
    small("a reference to no variable", "output_dir=${oc.env:NO_SUCH}", "NO_SUCH", "--cfg job"),
    small("a reference of no kind", "output_dir=${foo:1}", "foo", "--cfg job"),
    small("a reference that is not closed", "output_dir='${a'", "${a", "${key}"),
    small("a value that is still to be given", "output_dir=???", "output_dir", "add output_dir"),
    small("a value below a value", "measure.repeats.x=1", "repeats", "a whole number"),
    bare("several runs at once", "--multirun", "--multirun", "sweep.axes.method=[none,mtp]"),
    bare("several runs at once, in short", "-m", "-m", "sweep.axes.method=[none,mtp]"),
    bare("an unknown flag", "--config-dri=x", "--config-dri", "did you mean '--config-dir'"),
    bare("another main file", "--config-name=x", "--config-name", "--config-dir"),
    bare("a flag without its value", "--config-dir", "--config-dir", "VALUE"),
    bare("a flag that means nothing alone", "--resolve", "--resolve", "--cfg"),
    bare("a folder that is not there", "--config-dir=/no/such", "/no/such", "a folder that"),
    bare("a setting of Hydra's own", "hydra.run.dir=x", "hydra.run.dir=x", "leave it out"),
    # --- a user's files
    my_model("a file with a bracket left open", "name: [a\n", "model/mine.yaml", "line 2", "YAML"),
    my_model("a file with a tab", "name: a\n\tb: c\n", "model/mine.yaml", "line 2", "correct"),
    my_model("a file with a key twice", "name: a\nname: b\n", "line 2", "duplicate key name"),
    my_model("a file in another encoding", b"name: \xff\xfe\n", "model/mine.yaml", "UTF-8"),
    my_model("a file that is not text", b"\x00\x01", "model/mine.yaml", "not valid YAML"),
    my_model("a file of two documents", "name: a\n---\nname: b\n", "model/mine.yaml", "document"),
    my_model("a file that runs code", "name: !!python/name:os.x\n", "mine.yaml", "python/name"),
    my_model("an empty file", "", "model mine", "'name' is missing", "add name"),
    my_model("a file of comments", "# later\n", "model mine", "'name' is missing", "add name"),
    my_model("a file that is a list", "- a\n- b\n", "model mine", "['a', 'b']", "a mapping"),
    my_model("a file that is a word", "hello\n", "model mine", "'hello'", "checkpoint"),
    my_model("a model without a checkpoint", "name: mine\n", "model mine", "add checkpoint"),
    my_model("a model of another name", MODEL.replace("e: mine", "e: other"), "'other'", "mine"),
    my_model("a model with an unknown key", MODEL + "thinkng: true\n", "thinkng", "'thinking'"),
    my_model("a key that is a number", MODEL + "5: 6\n", "model mine", "a text"),
    my_model("a drafter of no method", MODEL + "drafters: {egle3: {}}\n", "egle3", "'eagle3'"),
    my_model(
        "a drafter without weights", MODEL + "drafters: {eagle3: {}}\n", "eagle3", "add check"
    ),
    my_model("a drafter of null", MODEL + "drafters: {mtp: null}\n", "drafters.mtp", "a mapping"),
    my_model("a K limit of zero", MODEL + "drafters: {mtp: {max_k: 0}}\n", "max_k", "greater than"),
    my_model("a file that inherits from nothing", "defaults: [base]\n" + MODEL, "base", "mine"),
    my_model(
        "a file whose defaults are a word", "defaults: base\n" + MODEL, "model/mine", "a list"
    ),
    my_model("a file that moves its keys", "# @package x\n" + MODEL, "model mine", "@package"),
    my_model("a reference to nowhere in a file", MODEL + "revision: ${x.y}\n", "x", "--cfg job"),
    Case(
        "a file under the name of one of ours",
        SMALL,
        ("dataset/chat.yaml", "another name"),
        {"dataset/chat": DATASET},
    ),
    my_sweep("a sweep that is empty", "", "sweep", "add axes"),
    my_sweep("a sweep without its first line", SWEEP.partition("\n")[2], "@package _global_"),
    my_sweep("a sweep without a section", "# @package _global_\nname: a\n", "'sweep:'"),
    my_sweep("a sweep without axes", "# @package _global_\nsweep: {name: a}\n", "add axes"),
    my_sweep("a sweep that is a list", "- a\n", "sweep", "a mapping"),
    my_sweep("a sweep without a name", SWEEP.replace("  name: mine\n", ""), "add name"),
    my_sweep("a sweep without an axis", SWEEP.replace("    dataset: [chat]\n", ""), "add dataset"),
    my_sweep("a sweep with an axis too many", SWEEP + "    datset: [a]\n", "datset", "'dataset'"),
    my_sweep(
        "a sweep that replaces no group",
        SWEEP.replace("sweep:", "defaults:\n  - override /measur: smoke\nsweep:", 1),
        "measur",
        "did you mean 'measure'",
    ),
    my_sweep(
        "a sweep that adds what is there",
        SWEEP.replace("sweep:", "defaults:\n  - /measure: smoke\nsweep:", 1),
        "measure",
        "override /measure",
    ),
    my_sweep(
        "a sweep that chooses an unknown option",
        SWEEP.replace("sweep:", "defaults:\n  - override /measure: smoek\nsweep:", 1),
        "smoek",
        "did you mean 'smoke'",
    ),
    my_method("a method without a kind", "name: mine\nk: [1]\n", "method mine", "add kind"),
    my_method("a method without a K", "name: mine\nkind: mtp\n", "method mine", "add k"),
    my_method("a method with a key of another", METHOD + "prompt_lookup_min: 1\n", "lookup_min"),
    # --- prompts
    my_dataset("a dataset without a source", "name: mine\nmax_tokens: 5\n", "add source"),
    my_dataset(
        "a source that is a word",
        DATASET.replace("{kind: bundled, file: ", "").replace("}", ""),
        "chat.jsonl",
        "a mapping",
    ),
    my_dataset("a source without a kind", DATASET.replace("kind: bundled, ", ""), "add kind"),
    my_dataset("a file that is not bundled", DATASET.replace("chat", "chatt"), "'chat.jsonl'"),
    my_dataset(
        "a branch where a commit is needed",
        "name: mine\nsource: {kind: hub, repo: a/b, split: test, revision: main}\nmax_tokens: 5\n",
        "'main'",
        "a full commit hash",
    ),
    my_dataset(
        "a prompt file that is not there",
        "name: mine\nsource: {kind: path, path: /no/such.jsonl}\nmax_tokens: 5\n",
        "/no/such.jsonl",
        "correct source.path",
    ),
    my_dataset(
        "a prompt field that no record has",
        DATASET + "prompt_field: promt\n",
        "'promt'",
        "did you mean 'prompt'",
    ),
    my_dataset(
        "another digest than pinned", DATASET + f"sha256: {'a' * 64}\n", "aaaa", "set sha256"
    ),
    jsonl("a prompt file of broken JSON", '{"id": 1, "prompt": "a"}\n{"id": \n', "line 2", "JSON"),
    jsonl("a prompt file that is one list", '[{"prompt": "a"}]\n', "line 1", "a JSON object"),
    jsonl("a prompt file of numbers", "5\n", "line 1", "a JSON object"),
    jsonl("an empty prompt file", "", "is empty", "a JSON object"),
    jsonl("a prompt file of blank lines", "\n\n", "no prompts", "records"),
    jsonl(
        "a prompt file in another encoding", '{"prompt": "é"}'.encode("latin1"), "utf-8", "UTF-8"
    ),
    jsonl(
        "a prompt that is missing once", '{"prompt": "a"}\n{"promt": "b"}\n', "record 2", "'prompt'"
    ),
    jsonl("a prompt of blanks", '{"prompt": "  "}\n', "record 1", "a text"),
    jsonl("a prompt that is a number", '{"prompt": 5}\n', "record 1", "a text"),
    jsonl("a prompt without turns", '{"prompt": []}\n', "record 1", "a text"),
    jsonl("a prompt of half a character", '{"prompt": "\\ud800"}\n', "half a character", "write"),
    jsonl(
        "two prompts of one id", '{"id": 1, "prompt": "a"}\n' * 2, "'1' stands twice", "id_field"
    ),
    # --- checkpoints
    my_model(
        "a zoo name that is not in the zoo", "name: mine\ncheckpoint: zoo:smollm2\n", "smollm2-135m"
    ),
    my_model(
        "a checkpoint folder that is not there", "name: mine\ncheckpoint: /no/such\n", "config.json"
    ),
    my_model("a checkpoint of no known form", "name: mine\ncheckpoint: what ever\n", "zoo:NAME"),
)


def typed(case: Case, folder: Path) -> list[str]:
    """The command line of a case, its files written."""
    if not case.files:
        return list(case.argv)
    yaml_files: dict[str, str | bytes] = {}
    for name, content in case.files.items():
        if name.endswith(".jsonl"):
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        else:
            known = content if isinstance(content, bytes) else content.encode()
            yaml_files[name] = known.replace(b"FOLDER", str(folder).encode())
    return [*case.argv, user_folder(folder, yaml_files)]


def plan(argv: list[str]) -> None:
    """Everything up to the plan, as the entry point does it."""
    config = read_command_line(argv, lambda: "cpu")
    assert config is not None
    prompts = {d.name: load_prompts(d, config.measure.max_tokens) for d in config.datasets}
    check_arguments(config, VLLM)
    make_plan(config, prompts, identity, VLLM)


def test_the_table_holds_sixty_kinds_of_mistake_or_more_each_once() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_mistake_is_told_in_one_helpful_sentence(case: Case, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        plan(typed(case, tmp_path))
    error = caught.value
    sentence = str(error)
    assert error.exit_code == EXIT_BAD_CONFIG
    assert [word for word in case.words if word not in sentence] == [], sentence
    assert "\n" not in sentence
    assert [word for word in JARGON if word in sentence] == [], sentence
    assert error.allowed or error.remedy or "; allowed: " in sentence or "; add " in sentence
    assert len(sentence) < 600


def run(argv: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it, in an empty folder."""
    return subprocess.run(
        [sys.executable, "-m", "pipeline", *argv],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        pytest.param(["+sweep=smokee"], ["smokee", "'smoke'"], id="an unknown sweep"),
        pytest.param([*SMALL, "measure.repeat=1"], ["'repeats'"], id="an unknown key"),
        pytest.param([*SMALL, "measure=null"], ["measure=NAME"], id="a measurement of null"),
        pytest.param([*SMALL, "--no-such-flag"], ["--no-such-flag"], id="an unknown flag"),
        pytest.param(
            ["+sweep=smoke", "method=dflash", "sweep.axes.k=9"], ["K=9"], id="an empty grid"
        ),
    ],
)
def test_the_command_ends_with_two_one_line_and_nothing_left_behind(
    argv: list[str], words: list[str], tmp_path: Path
) -> None:
    ended = run(argv, tmp_path)
    assert ended.returncode == EXIT_BAD_CONFIG, ended.stderr
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert all(word in ended.stderr for word in words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mistake", ["measure.repeats=0", "platform.engine_args.enforce_eagre=1"])
def test_a_mistake_is_found_before_ray_and_the_engine_are_imported(
    mistake: str, tmp_path: Path
) -> None:
    program = (
        "import json, sys; from pipeline.__main__ import main;"
        f"code = main(['+sweep=smoke', '{mistake}']);"
        "print(json.dumps([code, sorted({'ray', 'vllm', 'torch', 'mlflow'} & set(sys.modules))]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert json.loads(ended.stdout) == [EXIT_BAD_CONFIG, []]
