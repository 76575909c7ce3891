"""What starts a cluster of Sparks: each file judged by the tool that will read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.jobs.tools import CLUSTER, ROOT, run, tool

INSTALLED = "/opt/spec-decode"
UNITS = sorted(CLUSTER.glob("*.service"))
# Fields of KubeRay's ray.io/v1, by its reference; a field it does not have is dropped silently.
FIELDS = {
    "RayJobSpec": {
        *("entrypoint", "submissionMode", "backoffLimit", "shutdownAfterJobFinishes"),
        *("ttlSecondsAfterFinished", "rayClusterSpec", "activeDeadlineSeconds"),
    },
    "RayClusterSpec": {"rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs"},
    "HeadGroupSpec": {"rayStartParams", "template", "serviceType"},
    "WorkerGroupSpec": {
        *("groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"),
    },
}


# --- scripts, units, the image


def test_the_script_passes_shellcheck() -> None:
    done = run(tool("shellcheck"), str(CLUSTER / "ray-node"))
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_what_systemd_takes(unit: Path, tmp_path: Path) -> None:
    placed = tmp_path / unit.name
    placed.write_text(unit.read_text().replace(INSTALLED, str(ROOT)))
    done = run(tool("systemd-analyze"), "verify", str(placed))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_leaves_nothing_behind_and_outlives_an_engine(unit: Path) -> None:
    settings = dict(re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE))
    assert settings["KillMode"] == "control-group"
    assert settings["OOMPolicy"] == "continue"
    assert settings["Restart"] == "on-failure"
    role = "head" if "head" in unit.name else "worker"
    assert settings["ExecStart"] == f"{INSTALLED}/jobs/cluster/ray-node {role} --block"


def test_the_image_passes_hadolint_and_holds_the_engine() -> None:
    done = run(tool("hadolint"), str(CLUSTER / "Containerfile"))
    assert done.stdout + done.stderr == ""
    text = (CLUSTER / "Containerfile").read_text()
    assert "--constraint /tmp/engine.txt" in text
    assert "diff /tmp/engine.txt" in text
    copied = [line.split()[1] for line in text.splitlines() if line.startswith("COPY")]
    assert {"pyproject.toml", "conf", "jobs", "pipeline"} <= set(copied)


# --- what Ray and Kubernetes read


def test_ray_takes_the_cluster_file() -> None:
    util = pytest.importorskip("ray.autoscaler._private.util")
    config = util.prepare_config(yaml.safe_load((CLUSTER / "ray-cluster.yaml").read_text()))
    util.validate_config(config)
    assert config["max_workers"] == 1
    starts = [config["head_start_ray_commands"][-1], config["worker_start_ray_commands"][-1]]
    assert ["ray-node head" in starts[0], "ray-node worker" in starts[1]] == [True, True]


@pytest.fixture(scope="module")
def resources() -> dict[str, dict[str, Any]]:
    documents = yaml.safe_load_all((CLUSTER / "rayjob.yaml").read_text())
    return {document["kind"]: document for document in documents}


def groups(resources: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    cluster = resources["RayJob"]["spec"]["rayClusterSpec"]
    yield cluster["headGroupSpec"]
    yield from cluster["workerGroupSpecs"]


def test_kubernetes_takes_what_stands_beside_the_job_and_its_pods(
    resources: dict[str, dict[str, Any]],
) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    version = validate.latest_version()
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "pod", **group["template"]["metadata"]},
            "spec": group["template"]["spec"],
        }
        for group in groups(resources)
    ]
    for document in (*pods, *(r for kind, r in resources.items() if kind != "RayJob")):
        validate.validate(document, version, strict=True)


def test_the_job_has_only_fields_that_kuberay_has(resources: dict[str, dict[str, Any]]) -> None:
    job = resources["RayJob"]
    assert job["apiVersion"] == "ray.io/v1"
    cluster = job["spec"]["rayClusterSpec"]
    assert set(job["spec"]) <= FIELDS["RayJobSpec"]
    assert set(cluster) <= FIELDS["RayClusterSpec"]
    assert set(cluster["headGroupSpec"]) <= FIELDS["HeadGroupSpec"]
    for group in cluster["workerGroupSpecs"]:
        assert set(group) <= FIELDS["WorkerGroupSpec"]


def test_every_pod_is_safe_and_has_a_spark_of_its_own(
    resources: dict[str, dict[str, Any]],
) -> None:
    assert resources["RayJob"]["spec"]["rayClusterSpec"]["authOptions"] == {"mode": "token"}
    for group in groups(resources):
        params = group["rayStartParams"]
        # Once more in quotes, since KubeRay puts it on a shell's command line as it is.
        assert json.loads(json.loads(params["resources"])) == {"machine": 1}
        assert all(isinstance(value, str) for value in params.values())
        (container,) = group["template"]["spec"]["containers"]
        env = {variable["name"]: variable["value"] for variable in container["env"]}
        assert env["RAY_memory_monitor_refresh_ms"] == env["RAY_worker_niceness"] == "0"
        assert container["resources"]["limits"] == {"nvidia.com/gpu": 1}


def test_ray_has_the_version_that_the_job_names(resources: dict[str, dict[str, Any]]) -> None:
    (pinned,) = re.findall(r'"ray\[default\]==(.*)"', (ROOT / "pyproject.toml").read_text())
    assert resources["RayJob"]["spec"]["rayClusterSpec"]["rayVersion"] == pinned


# --- the page


def test_the_page_is_at_most_two_screens_and_its_files_and_verbs_are_there() -> None:
    text = (CLUSTER / "README.md").read_text()
    assert len(text.splitlines()) <= 100
    for name in re.findall(r"jobs/cluster/([\w.@*-]+)", text):
        assert list(CLUSTER.glob(name)), name
    for module in re.findall(r"-m (pipeline[\w.]*)", text):
        path = ROOT.joinpath(*module.split("."))
        assert (path / "__main__.py").is_file() or path.with_suffix(".py").is_file(), module
    for sweep in re.findall(r"\+sweep=(\w+)", text):
        assert (ROOT / "conf" / "sweep" / f"{sweep}.yaml").is_file()
