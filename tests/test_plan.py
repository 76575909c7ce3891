import os
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.estimate import estimate
from pipeline.folders import CONF
from pipeline.grid_errors import DuplicateCellError, EmptyGridError, UnknownMethodInAxisError
from pipeline.installed import InstalledVllm
from pipeline.plan import EngineGroup, Plan, make_plan
from pipeline.prompts import load_prompts
from pipeline.sources import identity_for_show
from pipeline.spec import SweepConfig
from tests.grids import (
    MEASURE,
    METHODS,
    PLATFORM,
    VLLM,
    compose,
    identify,
    model,
    plan_of,
    prompt_set,
    prompt_sets,
    sweep,
)

GOLDEN = Path(__file__).parent / "golden"
EAGLE = {"eagle3": {"checkpoint": "maker/head", "revision": "r1", "max_k": 5}}


# --- golden plans


def names(folder: str) -> list[str]:
    return sorted(path.stem for path in (CONF / folder).glob("*.yaml"))


def rendered(config: SweepConfig) -> str:
    """A plan as a person compares it: engine starts with their cells, what is pruned, the time."""
    prompts = {d.name: load_prompts(d, config.measure.max_tokens) for d in config.datasets}
    plan = make_plan(config, prompts, identity_for_show, VLLM)
    lines = [f"{plan.sweep} on {plan.platform}: {len(plan.cells)} cells, {len(plan.groups)} starts"]
    for group in plan.groups:
        speculative = group.engine.speculative or {}
        drafter = f" with {speculative['model']}" if "model" in speculative else ""
        lines += ["", f"{group.id}: {group.engine.checkpoint}{drafter}", f"  {cells_of(group)}"]
    lines += ["", f"pruned: {len(plan.pruned) or 'nothing'}"]
    for pruned in plan.pruned:
        k = f" K={pruned.k}" if pruned.k is not None else ""
        lines.append(f"  {pruned.model} {pruned.method}{k}: {pruned.reason}")
    lines += ["", *(f"note: {warning}" for warning in plan.warnings)]
    expected = estimate(
        plan, plan.baselines, prompts, config.measure.repeats, config.platform.assume, []
    )
    hours = [s / 3600 for s in (expected.total_s, expected.engine_start_s, expected.generation_s)]
    lines.append("hours: {:.2f} = {:.2f} engine starts + {:.2f} generation".format(*hours))
    return "\n".join(lines) + "\n"


def cells_of(group: EngineGroup) -> str:
    by_dataset = groupby(group.cells, key=lambda cell: cell.at.dataset)
    at_once = {d: ",".join(str(cell.at.concurrency) for cell in cells) for d, cells in by_dataset}
    return "  ".join(f"{dataset} c{counts}" for dataset, counts in at_once.items())


@pytest.mark.parametrize("platform", names("platform"))
@pytest.mark.parametrize("name", names("sweep"))
def test_a_sweep_plans_what_its_golden_file_says(name: str, platform: str) -> None:
    """Run with UPDATE_GOLDEN=1 to write the files anew, then read the difference."""
    path = GOLDEN / f"plan-{name}-{platform}.txt"
    try:
        text = rendered(compose(f"+sweep={name}", platform=platform))
    except EmptyGridError as error:
        text = f"{error}\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.is_file(), "this sweep has no golden plan yet; run again with UPDATE_GOLDEN=1"
    assert text == path.read_text()


def test_no_golden_plan_is_left_of_a_sweep_that_is_gone() -> None:
    wanted = {f"plan-{s}-{p}.txt" for s in names("sweep") for p in names("platform")}
    assert {path.name for path in GOLDEN.glob("plan-*.txt")} <= wanted


# --- the grid


def test_plain_decoding_has_one_cell_per_dataset_and_no_k() -> None:
    plan = plan_of(sweep(methods=[METHODS["none"]], datasets=["a", "b"], k=[2, 4]))
    assert [(c.at.k, c.at.dataset) for c in plan.cells] == [(0, "a"), (0, "b")]
    assert [group.id for group in plan.groups] == ["m0--none"]
    assert plan.groups[0].engine.speculative is None


def test_each_k_of_a_method_is_one_engine_start_with_all_its_cells() -> None:
    plan = plan_of(sweep(datasets=["a", "b"], concurrency=[1, 8]))
    assert [g.id for g in plan.groups] == ["m0--none", "m0--ngram-k4", "m0--ngram-k5"]
    assert all(len(group.cells) == 4 for group in plan.groups)


def test_the_engines_of_one_model_start_one_after_the_other() -> None:
    plan = plan_of(sweep(models=[model("a"), model("b")]))
    assert [name for name, _ in groupby(plan.groups, key=lambda g: g.model)] == ["a", "b"]


def test_a_label_names_a_cell_for_a_person() -> None:
    plan = plan_of(sweep(k=[3]))
    assert [c.at.label for c in plan.cells] == ["m0/none/d0/c1", "m0/ngram-k3/d0/c1"]


def test_arguments_of_the_platform_yield_to_the_measurement_the_model_and_the_drafter() -> None:
    plan = plan_of(
        sweep(
            models=[
                model(
                    engine_args={"c": "model", "d": "model"},
                    drafters={"mtp": {"engine_args": {"d": "drafter"}}},
                )
            ],
            methods=[METHODS["mtp"]],
            k=[1],
            platform={**PLATFORM, "engine_args": dict.fromkeys("abcd", "platform")},
            measure={**MEASURE, "engine_args": dict.fromkeys("bcd", "measure")},
        )
    )
    assert plan.groups[0].engine.engine_args == {
        "a": "platform",
        "b": "measure",
        "c": "model",
        "d": "drafter",
    }


def test_a_drafter_may_bring_a_target_of_its_own() -> None:
    drafters = {"mtp": {"target": "maker/with-head"}}
    plan = plan_of(
        sweep([model(drafters=drafters, revision="r")], [METHODS["none"], METHODS["mtp"]])
    )
    checkpoints = [(g.engine.checkpoint, g.engine.revision) for g in plan.groups]
    assert checkpoints == [("maker/m0", "r"), ("maker/with-head", None), ("maker/with-head", None)]


# --- pruning


def test_a_method_without_a_drafter_is_pruned_once_for_all_its_k() -> None:
    plan = plan_of(sweep(methods=[METHODS["none"], METHODS["mtp"]]))
    assert [(p.method, p.k) for p in plan.pruned] == [("mtp", None)]
    assert plan.pruned[0].reason == "mtp needs a drafter for m0; it has drafters for: none"


def test_a_k_beyond_the_drafters_limit_is_pruned_with_its_reason() -> None:
    drafters = {"dflash": {"checkpoint": "a/b", "max_k": 7, "max_k_reason": "its block ends"}}
    methods = [METHODS["none"], METHODS["dflash"]]
    plan = plan_of(sweep([model(drafters=drafters)], methods, k=[7, 8]))
    assert [p.k for p in plan.pruned] == [8]
    assert plan.pruned[0].reason == "K=8 exceeds this drafter's limit of 7 (its block ends)"
    assert [g.k for g in plan.groups] == [0, 7]


def test_a_model_for_gpus_is_pruned_on_a_machine_without_one() -> None:
    models = [model("small"), model("large", resources={"gpus": 2})]
    plan = plan_of(sweep(models, platform={**PLATFORM, "device": "cpu"}))
    assert {p.model for p in plan.pruned} == {"large"}
    assert "large needs 2 GPU; platform bench has none" in plan.pruned[0].reason
    assert {g.model for g in plan.groups} == {"small"}


def test_a_combination_that_a_sweep_leaves_out_is_pruned_with_its_reason() -> None:
    config = sweep([model("a"), model("b")])
    left = {"model": "b", "method": "ngram", "reason": "not wanted"}
    axes = {**config.axes.model_dump(), "leave_out": [left]}
    plan = plan_of(SweepConfig.model_validate({**config.model_dump(), "axes": axes}))
    assert [g.id for g in plan.groups] == ["a--none", "a--ngram-k4", "a--ngram-k5", "b--none"]
    (pruned,) = plan.pruned
    assert (pruned.model, pruned.method, pruned.k) == ("b", "ngram", None)
    assert pruned.reason == "not wanted (sweep.axes.leave_out)"


def test_what_the_installed_vllm_or_the_gpu_cannot_do_is_pruned_once_for_all_its_k() -> None:
    drafters = {"dflash": {"checkpoint": "a/b", "revision": "r"}}
    config = sweep(
        [model(drafters=drafters, revision="r")],
        [METHODS["none"], METHODS["dflash"]],
        k=[3, 7],
        platform={**PLATFORM, "compute_capability": "12.1"},
    )
    prompts = prompt_sets(config)
    (old,) = make_plan(config, prompts, identify, InstalledVllm(version="0.19.1")).pruned
    assert "vLLM 0.19.1 has no method dflash" in old.reason
    (new,) = make_plan(config, prompts, identify, VLLM).pruned
    assert "crashes on SM121" in new.reason
    assert new.k is None


def test_a_checkpoint_without_a_revision_is_told_of_once() -> None:
    drafters = {"mtp": {}, "eagle3": {"checkpoint": "maker/head"}}
    plan = plan_of(sweep([model(drafters=drafters)], [METHODS["mtp"], METHODS["eagle3"]]))
    told = [warning for warning in plan.warnings if "has no revision" in warning]
    assert [warning.partition(" ")[0] for warning in told] == ["maker/m0", "maker/head"]
    pinned = plan_of(sweep([model(revision="r")], [METHODS["none"]]))
    assert [warning for warning in pinned.warnings if "revision" in warning] == []


def test_a_grid_of_which_nothing_is_left_is_a_mistake_that_names_the_first_reason() -> None:
    with pytest.raises(EmptyGridError, match="mtp needs a drafter for m0"):
        plan_of(sweep(methods=[METHODS["mtp"]]))


def test_a_list_of_k_for_a_method_outside_the_sweep_is_a_mistake() -> None:
    with pytest.raises(UnknownMethodInAxisError, match="did you mean 'ngram'"):
        plan_of(sweep(k={"ngrm": [1]}))


def test_two_cells_that_would_be_one_measurement_are_a_mistake() -> None:
    twin = {**METHODS["ngram"], "name": "twin"}
    with pytest.raises(DuplicateCellError, match=r"m0/twin-k4/d0/c1 .* m0/ngram-k4/d0/c1"):
        plan_of(sweep(methods=[METHODS["ngram"], twin]))


# --- fingerprints


def prints(config: SweepConfig, digest: str = "d", **identities: str) -> tuple[str, ...]:
    """The fingerprints of a sweep whose checkpoints may be given identities by name."""

    def known(reference: str, revision: str | None) -> str:
        return identities.get(reference, identify(reference, revision))

    prompts = {name: prompt_set(name, digest) for name in config.axes.dataset}
    return tuple(cell.fingerprint for cell in make_plan(config, prompts, known).cells)


def one(**changes: Any) -> SweepConfig:
    """A sweep of one cell that has everything a fingerprint may hold."""
    parts: dict[str, Any] = {
        "models": [model(drafters=EAGLE, revision="r1", thinking=False)],
        "methods": [METHODS["eagle3"]],
        **changes,
    }
    return sweep(**parts)


def with_model(name: str = "m0", **changes: Any) -> SweepConfig:
    parts: dict[str, Any] = {"drafters": EAGLE, "revision": "r1", "thinking": False, **changes}
    return one(models=[model(name, **parts)])


def with_drafter(**changes: object) -> SweepConfig:
    return with_model(drafters={"eagle3": {**EAGLE["eagle3"], **changes}})


def with_measure(**changes: object) -> SweepConfig:
    return one(measure={**MEASURE, **changes})


def with_sampling(**changes: object) -> SweepConfig:
    return with_measure(sampling=changes)


def with_platform(**changes: object) -> SweepConfig:
    return one(platform={**PLATFORM, **changes})


MEASURED: dict[str, Callable[[], SweepConfig]] = {
    "the checkpoint": lambda: with_model(checkpoint="maker/other"),
    "the checkpoint's revision": lambda: with_model(revision="r2"),
    "the thinking switch": lambda: with_model(thinking=True),
    "the model's engine arguments": lambda: with_model(engine_args={"max_model_len": 800}),
    "the platform's engine arguments": lambda: with_platform(engine_args={"dtype": "half"}),
    "the measurement's engine arguments": lambda: with_measure(engine_args={"seed": 1}),
    "the drafter": lambda: with_drafter(checkpoint="maker/other-head"),
    "the drafter's revision": lambda: with_drafter(revision="r2"),
    "the drafter's target": lambda: with_drafter(target="maker/other"),
    "the drafter's engine arguments": lambda: with_drafter(engine_args={"a": 1}),
    "the speculative settings": lambda: with_drafter(speculative={"a": 1}),
    "K": lambda: one(k=[4]),
    "the concurrency": lambda: one(concurrency=[2]),
    "the temperature": lambda: with_sampling(temperature=0.5),
    "top_p": lambda: with_sampling(top_p=0.5),
    "top_k": lambda: with_sampling(top_k=5),
    "the presence penalty": lambda: with_sampling(presence_penalty=0.5),
    "the repetition penalty": lambda: with_sampling(repetition_penalty=1.5),
    "the seed": lambda: with_sampling(seed=5),
    "the repeats": lambda: with_measure(repeats=2),
    "the warm-up prompts": lambda: with_measure(warmup=["one", "three"]),
    "the warm-up's length": lambda: with_measure(warmup_tokens=5),
    "where the engine's core runs": lambda: with_platform(engine_core="own_process"),
    "the engine's environment": lambda: with_platform(env={"A": "1"}),
}
UNMEASURED: dict[str, Callable[[], SweepConfig]] = {
    "the name the model is served under": lambda: with_model(
        engine_args={"served_model_name": "x"}
    ),
    "the folder for downloads": lambda: with_model(engine_args={"download_dir": "/tmp/x"}),
    "the folder of results": lambda: one(output_dir="/elsewhere"),
    "tracking": lambda: one(tracking={"enabled": True, "uri": "sqlite:///x.db"}),
    "the cluster": lambda: one(ray={"address": "ray://10.0.0.1:10001"}),
    "the sweep's name": lambda: one(name="other"),
    "the sweep's question": lambda: one(question="Why?"),
    "a dry run": lambda: one(dry_run=True),
    "the deadline of a start": lambda: with_platform(start_deadline_s=99),
    "the deadline of a token": lambda: with_platform(token_deadline_s=99),
    "the assumptions of the estimate": lambda: with_platform(
        assume={"engine_start_s": 9, "decode_tok_s": 9}
    ),
    "the platform's name": lambda: with_platform(name="other"),
    "the number of GPUs": lambda: with_model(resources={"gpus": 1}),
    "the drafter's limit of K": lambda: with_drafter(max_k=9, max_k_reason="why"),
    "the model's name": lambda: with_model("renamed", checkpoint="maker/m0"),
    "the dataset's name": lambda: one(datasets=["renamed"]),
    "the method's name": lambda: one(methods=[{**METHODS["eagle3"], "name": "renamed"}]),
}  # fmt: skip


@pytest.mark.parametrize("change", MEASURED.values(), ids=MEASURED.keys())
def test_what_changes_a_measurement_changes_the_fingerprint(
    change: Callable[[], SweepConfig],
) -> None:
    assert prints(change()) != prints(one())


def test_all_those_changes_have_fingerprints_of_their_own() -> None:
    changed = {prints(change()) for change in MEASURED.values()}
    assert len(changed) == len(MEASURED)


@pytest.mark.parametrize("change", UNMEASURED.values(), ids=UNMEASURED.keys())
def test_what_leaves_a_measurement_alone_leaves_the_fingerprint_alone(
    change: Callable[[], SweepConfig],
) -> None:
    assert prints(change()) == prints(one())


def test_other_prompts_change_the_fingerprint() -> None:
    assert prints(one(), digest="other") != prints(one())


def test_a_checkpoint_that_is_moved_keeps_its_fingerprint_and_an_edited_one_does_not() -> None:
    here, there = with_model(checkpoint="/here"), with_model(checkpoint="/there")
    same = {"/here": "sha256:1", "/there": "sha256:1"}
    assert prints(here, **same) == prints(there, **same)
    assert prints(here, **same) != prints(there, **{**same, "/there": "sha256:2"})


def test_a_drafter_that_is_moved_keeps_its_fingerprint() -> None:
    here, there = with_drafter(checkpoint="/here"), with_drafter(checkpoint="/there")
    assert prints(here, **{"/here": "x"}) == prints(there, **{"/there": "x"})


def test_the_order_of_arguments_leaves_the_fingerprint_alone() -> None:
    forwards, backwards = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert prints(with_model(engine_args=forwards)) == prints(with_model(engine_args=backwards))


# --- properties


axis_lengths = st.integers(min_value=1, max_value=3)


@st.composite
def grids(draw: st.DrawFn) -> SweepConfig:
    count = draw(axis_lengths)
    heads = draw(st.sets(st.sampled_from(["mtp", "eagle3", "dflash"])))
    drafters = {
        kind: {"checkpoint": f"maker/{kind}", "max_k": draw(st.integers(1, 8))}
        for kind in sorted(heads)
    }
    chosen = draw(st.sets(st.sampled_from(sorted(METHODS)), min_size=1))
    ks = st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True)
    k = draw(st.none() | ks)
    return sweep(
        models=[model(f"m{i}", drafters=drafters) for i in range(count)],
        methods=[METHODS["none"], *(METHODS[m] for m in sorted(chosen - {"none"}))],
        datasets=[f"d{i}" for i in range(draw(axis_lengths))],
        k=k,
        concurrency=draw(st.lists(st.integers(1, 16), min_size=1, max_size=3, unique=True)),
    )


properties = settings(max_examples=60, deadline=None)


@properties
@given(grids())
def test_every_point_of_the_grid_is_in_exactly_one_group_or_pruned(config: SweepConfig) -> None:
    plan = plan_of(config)
    places = [cell.at for cell in plan.cells]
    assert len(places) == len(set(places)) > 0
    for group in plan.groups:
        assert {(c.at.model, c.at.method, c.at.k) for c in group.cells} == {
            (group.model, group.method, group.k)
        }
        assert len(group.cells) == len(config.axes.dataset) * len(config.axes.concurrency)
    met = {(g.model, g.method) for g in plan.groups} | {(p.model, p.method) for p in plan.pruned}
    assert met == {(m.name, n.name) for m in config.models for n in config.methods}
    assert len({group.id for group in plan.groups}) == len(plan.groups)


@properties
@given(grids())
def test_every_cell_has_a_fingerprint_of_its_own(config: SweepConfig) -> None:
    plan = plan_of(config)
    assert len({cell.fingerprint for cell in plan.cells}) == len(plan.cells)


@properties
@given(grids())
def test_equal_input_gives_an_equal_plan_and_a_plan_survives_being_written(
    config: SweepConfig,
) -> None:
    plan = plan_of(config)
    again = SweepConfig.model_validate_json(config.model_dump_json())
    assert plan_of(again) == plan
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


@properties
@given(grids(), st.data())
def test_without_removes_what_is_done_and_nothing_else(
    config: SweepConfig, data: st.DataObject
) -> None:
    plan = plan_of(config)
    known = [cell.fingerprint for cell in plan.cells]
    done = frozenset(data.draw(st.sets(st.sampled_from(known))))
    left = plan.without(done | {"something else"})
    assert left.cells == tuple(c for c in plan.cells if c.fingerprint not in done)
    assert all(group.cells for group in left.groups)
    assert left.pruned == plan.pruned
    assert plan.without(frozenset(known)).groups == ()


def test_a_plan_of_a_thousand_cells_takes_at_most_a_second() -> None:
    config = sweep(
        models=[model(f"m{i}", drafters=EAGLE) for i in range(5)],
        datasets=[f"d{i}" for i in range(5)],
        methods=[METHODS["none"], METHODS["ngram"]],
        k=list(range(1, 10)),
        concurrency=[1, 2, 4, 8],
    )
    prompts = prompt_sets(config)
    began = time.process_time()
    plan = make_plan(config, prompts, identify)
    assert len(plan.cells) == 1000
    assert time.process_time() - began <= 1.0


def test_mistakes_of_a_plan_are_the_users_to_mend() -> None:
    for mistake in (EmptyGridError, UnknownMethodInAxisError, DuplicateCellError):
        assert issubclass(mistake, InputError)
