"""A driver's library that answers from a script, and refuses what the script leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

# What a GB10 is reported to answer while it decodes; its memory is not among it.
GB10: dict[str, Any] = {
    "nvmlInit": None,
    "nvmlShutdown": None,
    "nvmlDeviceGetCount": 1,
    "nvmlDeviceGetHandleByIndex": "handle",
    "nvmlDeviceGetName": "NVIDIA GB10",
    "nvmlDeviceGetUUID": "GPU-8f639255",
    "nvmlSystemGetDriverVersion": "580.173.02",
    "nvmlSystemGetCudaDriverVersion": 13000,
    "nvmlDeviceGetMaxClockInfo": 3003,
    "nvmlDeviceGetClockInfo": 2411,
    "nvmlDeviceGetPowerUsage": 36_500,
    "nvmlDeviceGetTemperature": 61,
    "nvmlDeviceGetCurrentClocksEventReasons": 0,
    "nvmlDeviceGetPerformanceState": 0,
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=96, memory=0),
    "nvmlDeviceGetTotalEnergyConsumption": 81_250_500,
    "nvmlDeviceGetComputeRunningProcesses": [],
}


def script(monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, Any]) -> None:
    """Replace every query of NVML; an answer may be a function of the query's arguments."""
    for name in dir(pynvml):
        if name.startswith(("nvmlDeviceGet", "nvmlSystemGet", "nvmlInit", "nvmlShutdown")):
            monkeypatch.setattr(pynvml, name, _query(name, answers))


def _query(name: str, answers: Mapping[str, Any]) -> Any:
    def ask(*arguments: object) -> Any:
        if name not in answers:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        answer = answers[name]
        return answer(*arguments) if callable(answer) else answer

    return ask
