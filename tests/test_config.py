from pathlib import Path

import pytest

from pipeline.config import read_command_line
from pipeline.folders import CONF
from pipeline.methods import k_values
from tests.grids import compose, user_folder

SMOKE = "+sweep=smoke"
MODEL = "name: mine\ncheckpoint: maker/mine\n"
DATASET = "name: mine\nsource: {kind: bundled, file: chat.jsonl}\nmax_tokens: 16\n"
SWEEP = """# @package _global_
sweep:
  name: mine
  axes:
    model: ${platform.models}
    method: [none, ngram]
    dataset: [chat]
    k: {ngram: [2, 3]}
    concurrency: [1, 2]
"""


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


# --- every file of ours


@pytest.mark.parametrize("name", options("sweep"))
@pytest.mark.parametrize("platform", options("platform"))
def test_every_sweep_composes_and_parses_on_every_platform(name: str, platform: str) -> None:
    config = compose(f"+sweep={name}", platform=platform)
    assert config.name == name
    assert config.platform.name == platform
    own = name == "article_exact"
    assert tuple(m.name for m in config.models) == config.axes.model
    assert (config.axes.model == config.platform.models) == (not own or platform == "dgx_spark")
    assert tuple(m.name for m in config.methods) == config.axes.method
    assert tuple(d.name for d in config.datasets) == config.axes.dataset


def test_every_model_method_and_dataset_composes_and_parses_under_its_own_name() -> None:
    groups = ("model", "method", "dataset")
    chosen = [f"{group}=[{','.join(options(group))}]" for group in groups]
    config = compose(SMOKE, *chosen)
    assert [m.name for m in config.models] == options("model")
    assert [m.name for m in config.methods] == options("method")
    assert [d.name for d in config.datasets] == options("dataset")


@pytest.mark.parametrize("name", options("measure"))
def test_every_measurement_composes_and_parses(name: str) -> None:
    # A sweep may bring a measurement of its own; the command line has the last word.
    config = compose(SMOKE, f"measure={name}", "method=none", "dataset=chat")
    assert config.measure.repeats >= 1
    assert len(set(config.measure.warmup)) >= 2
    assert (config.measure.sampling.temperature > 0) == (name == "article")


@pytest.mark.parametrize("name", options("tracking"))
def test_every_tracking_composes_and_parses(name: str) -> None:
    config = compose(SMOKE, f"tracking={name}", "method=none", "dataset=chat")
    assert config.tracking.enabled == (name != "off")


@pytest.mark.parametrize("path", sorted(CONF.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_of_ours_opens_with_its_command_or_an_explanation(path: Path) -> None:
    first, second, *_ = path.read_text().splitlines()
    if path.parent.name == "sweep":
        assert first == "# @package _global_"
        first = second
        assert first == f"# python -m pipeline +sweep={path.stem}"
    assert first.startswith("# ")
    assert len(first) > 10


# --- narrowing


def test_one_method_on_the_command_line_replaces_the_sweeps_axis() -> None:
    config = compose(SMOKE, "method=ngram")
    assert config.axes.method == ("ngram",)
    assert [m.name for m in config.methods] == ["ngram"]
    assert config.axes.dataset == ("chat", "echo")


def test_a_list_on_the_command_line_replaces_the_sweeps_axis_in_its_order() -> None:
    config = compose(SMOKE, "method=[mtp,none]", "dataset=[math]", "model=qwen3-30b-a3b")
    assert config.axes.method == ("mtp", "none")
    assert config.axes.dataset == ("math",)
    assert [m.name for m in config.models] == ["qwen3-30b-a3b"]


def test_axes_are_narrowed_under_their_own_names_too() -> None:
    config = compose(SMOKE, "sweep.axes.method=[ngram]", "sweep.axes.dataset=[code]")
    assert config.axes.method == ("ngram",)
    assert [d.name for d in config.datasets] == ["code"]


@pytest.mark.parametrize(
    ("typed", "axis"),
    [
        pytest.param("[2,4]", (2, 4), id="a list for all"),
        pytest.param("3", (3,), id="a single value is a list of one"),
        pytest.param("{ngram:[2]}", {"ngram": (2,)}, id="a list for one method"),
        pytest.param("{ngram:6}", {"ngram": (6,)}, id="a single value for one method"),
        pytest.param("null", None, id="each method's own list"),
    ],
)
@pytest.mark.parametrize("name", options("sweep"))
def test_k_is_given_for_all_methods_or_for_each(name: str, typed: str, axis: object) -> None:
    methods = "method=[none,ngram]"
    config = compose(f"+sweep={name}", f"sweep.axes.k={typed}", methods, "dataset=chat")
    assert config.axes.k == axis


def test_a_single_concurrency_is_a_list_of_one() -> None:
    assert compose(SMOKE, "sweep.axes.concurrency=8", "method=none").axes.concurrency == (8,)


def test_a_value_that_stands_twice_on_an_axis_counts_once() -> None:
    config = compose(SMOKE, "method=[none,none]", "sweep.axes.concurrency=[2,1,2]", "dataset=chat")
    assert config.axes.method == ("none",)
    assert config.axes.concurrency == (2, 1)


def test_a_value_of_the_one_chosen_option_is_changed_from_the_command_line() -> None:
    config = compose(SMOKE, "method=ngram", "method.prompt_lookup_max=7", "dataset=chat")
    assert config.methods[0].model_dump()["prompt_lookup_max"] == 7


def test_a_key_that_a_file_leaves_at_its_default_is_set_without_a_plus() -> None:
    config = compose(SMOKE, "method=none", "dataset=chat", "dataset.limit=3")
    assert config.datasets[0].limit == 3


def test_values_of_the_measurement_win_over_the_sweeps_choice() -> None:
    config = compose(SMOKE, "measure.repeats=5", "method=none", "dataset=chat")
    assert config.measure.repeats == 5
    assert config.measure.max_tokens == 24


def test_flags_may_stand_before_between_and_after_the_settings(tmp_path: Path) -> None:
    flag = user_folder(tmp_path, {"dataset/mine": DATASET})
    name, _, folder = flag.partition("=")
    for argv in (
        [flag, SMOKE, "dataset=mine", "method=none"],
        [SMOKE, name, folder, "dataset=mine", "method=none"],
        [SMOKE, "dataset=mine", "method=none", "-cd", folder],
    ):
        assert [d.name for d in compose(*argv).datasets] == ["mine"]


# --- the platform


def unasked() -> str:
    raise AssertionError("the platform was looked for although it was named")


def test_the_machine_is_looked_at_when_no_platform_is_named() -> None:
    config = compose(SMOKE, "method=none", "dataset=chat", platform="dgx_spark")
    assert config.platform.name == "dgx_spark"


def test_a_platform_that_is_named_is_taken_without_looking() -> None:
    argv = [SMOKE, "platform=dgx_spark", "method=none", "dataset=chat"]
    config = read_command_line(argv, unasked)
    assert config is not None
    assert config.platform.name == "dgx_spark"
    assert config.axes.model == config.platform.models


# --- a user's own options


def test_a_users_model_dataset_and_sweep_stand_beside_ours(tmp_path: Path) -> None:
    flag = user_folder(
        tmp_path, {"model/mine": MODEL, "dataset/mine": DATASET, "sweep/mine": SWEEP}
    )
    config = compose("+sweep=mine", "model=[mine,smollm2-135m]", "dataset=[chat,mine]", flag)
    assert config.name == "mine"
    assert [m.checkpoint for m in config.models] == ["maker/mine", "zoo:smollm2-135m-instruct"]
    assert [d.name for d in config.datasets] == ["chat", "mine"]


def test_a_users_method_platform_measurement_and_tracking_are_chosen_by_name(
    tmp_path: Path,
) -> None:
    cpu = (CONF / "platform" / "cpu.yaml").read_text()
    files = {
        "method/mine": "name: mine\nkind: mtp\nk: 2\n",
        "platform/mine": cpu.replace("name: cpu", "name: mine"),
        "measure/mine": "defaults: [standard, _self_]\nrepeats: 7\n",
        "tracking/mine": "enabled: true\nuri: sqlite:///elsewhere.db\n",
    }  # fmt: skip
    chosen = [f"{name.partition('/')[0]}=mine" for name in files]
    config = compose(SMOKE, *chosen, "dataset=chat", user_folder(tmp_path, files))
    assert [m.name for m in config.methods] == ["mine"]
    assert k_values(config.methods[0], config.models[0], None) == (2,)
    assert config.platform.name == "mine"
    assert config.measure.repeats == 7
    assert config.tracking.uri == "sqlite:///elsewhere.db"


def test_a_list_of_k_for_a_method_that_is_narrowed_away_goes_with_it(tmp_path: Path) -> None:
    flag = user_folder(tmp_path, {"sweep/mine": SWEEP})
    assert compose("+sweep=mine", "method=none", flag).axes.k is None
    assert compose("+sweep=mine", flag).axes.k == {"ngram": (2, 3)}


def test_a_users_option_may_refer_to_the_composed_configuration(tmp_path: Path) -> None:
    text = MODEL + "engine_args: {max_num_seqs: '${platform.logical_gpus}'}\n"
    flag = user_folder(tmp_path, {"model/mine": text})
    config = compose(SMOKE, "model=[mine]", "platform.logical_gpus=6", "dataset=chat", flag)
    assert config.models[0].engine_args == {"max_num_seqs": 6}


def test_a_folder_with_blanks_and_quotes_in_its_name_is_read(tmp_path: Path) -> None:
    flag = user_folder(tmp_path / 'my "own" folder', {"dataset/mine": DATASET})
    assert [d.name for d in compose(SMOKE, "dataset=mine", "method=none", flag).datasets] == [
        "mine"
    ]


def test_reading_twice_gives_equal_records() -> None:
    argv = (SMOKE, "method=none", "dataset=chat")
    assert compose(*argv) == compose(*argv)


# --- what Hydra answers by itself


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        pytest.param([SMOKE, "--cfg", "job"], "name: smoke", id="the configuration"),
        pytest.param([SMOKE, "--cfg=job", "--resolve"], "- smollm2-135m", id="resolved"),
        pytest.param(["--help"], "sweep", id="help"),
        pytest.param(["--info", "searchpath"], "conf", id="where options are read from"),
    ],
)
def test_a_flag_that_asks_for_output_prints_it_and_runs_nothing(
    argv: list[str], shown: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert read_command_line(argv, lambda: "cpu") is None
    assert shown in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
