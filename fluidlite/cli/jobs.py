"""The job that a command line describes: every option is obeyed, or refused."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable
from typing import Any

from fluidlite.base.errors import FluidError, did_you_mean
from fluidlite.cli.capture import Captured
from fluidlite.cli.errors import UsageError, one_line
from fluidlite.cli.options import count
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.modes import LOCAL, Job, TrainingMode, make_job, mode_called
from fluidlite.transpiler.ps_dispatcher import HashName, RoundRobin

__all__ = ["config_of", "endpoints_of", "job_of", "mode_of"]


def job_of(options: argparse.Namespace, captured: Captured) -> Job:
    """The job; UsageError where the options do not go together."""
    config = config_of(options.config, options.sync)
    mode = mode_of(options, config)
    trainers, endpoints = endpoints_of(options)
    return make_job(captured.main, captured.startup, mode, trainers, endpoints, config=config)


def mode_of(options: argparse.Namespace, config: DistributeTranspilerConfig) -> TrainingMode:
    """The mode that --mode, --sync, --async and the fields of --config ask for together."""
    mode = mode_called(options.mode)
    given = {pair.partition("=")[0] for pair in options.config}
    in_step = options.sync
    if "sync_mode" in given:
        if in_step is not None and in_step != config.sync_mode:
            raise UsageError("--config sync_mode conflicts with --sync or --async: give only one of them")
        in_step = config.sync_mode
    chosen = mode.asynchronous(config) if in_step is False else mode
    if in_step is False and chosen.in_step:
        raise UsageError(
            f"mode {mode.name} has no asynchronous variant: its trainers synchronise at each step"
        )
    if in_step is True and not mode.in_step:
        raise UsageError(f"the trainers of mode {mode.name} do not synchronise at each step: remove --sync")
    _check_fields(given - {"sync_mode"}, chosen, config, chosen is not mode)
    return chosen


def _check_fields(
    given: Collection[str], mode: TrainingMode, config: DistributeTranspilerConfig, by_fields: bool
) -> None:
    """UsageError for a field that the mode does not read, unless it says what the mode does anyway."""
    own = mode.configured(DistributeTranspilerConfig())
    # these have chosen between the asynchronous modes
    read = {*mode.options, *(("half_async", "runtime_split_send_recv") if by_fields else ())}
    for name in sorted(given):
        if name not in read and getattr(config, name) != getattr(own, name):
            listed = ", ".join(sorted(mode.options)) or "none"
            raise UsageError(f"mode {mode.name} does not read --config {name} (it reads: {listed})")


def endpoints_of(options: argparse.Namespace) -> tuple[int, int | str]:
    """How many trainers, and the endpoints or how many there are."""
    servers = mode_called(options.mode).has_servers
    if options.pservers is not None and not servers:
        raise UsageError(f"mode {options.mode} has no servers: remove --pservers")
    if options.pservers is not None and options.endpoints is not None:
        raise UsageError("--pservers and --endpoints set the same value: give only one of them")
    given = options.endpoints or options.pservers
    trainers = options.trainers
    if mode_called(options.mode) is LOCAL:
        if given is not None or trainers not in (None, 1):
            raise UsageError(f"mode {options.mode} has one process: remove --trainers and --endpoints")
        return 1, 1
    if trainers is None:
        # without servers the endpoints are the trainers'
        trainers = 2 if servers or given is None else len(given.split(","))
    if given is None:
        return trainers, 2 if servers else trainers
    if options.pservers is not None and ":" not in given:
        try:
            return trainers, count(given)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"--pservers: {error}, nor a list of endpoints") from None
    return trainers, given


def config_of(pairs: Iterable[str], in_step: bool | None = None) -> DistributeTranspilerConfig:
    """The configuration that `key=value` pairs ask for, each value read as its field's type; `in_step` is
    what --sync and --async say.
    """
    # some fields are for asynchronous jobs alone
    fields: dict[str, Any] = {} if in_step is not False else {"sync_mode": False}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"--config expects key=value, but got {pair!r}")
        if key not in DistributeTranspilerConfig.names():
            raise UsageError(
                f"DistributeTranspilerConfig has no field "
                f"{key!r}{did_you_mean(key, DistributeTranspilerConfig.names())}"
            )
        fields[key] = _typed(key, text)
    try:
        return DistributeTranspilerConfig.make(**fields)
    except (FluidError, ValueError) as error:
        raise UsageError(f"--config: {one_line(error)}") from None


_WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
_METHODS = {"RoundRobin": RoundRobin, "HashName": HashName}


def _typed(key: str, text: str) -> Any:
    default = getattr(DistributeTranspilerConfig(), key)
    if key == "split_method":
        if text not in _METHODS:
            raise UsageError(
                f"--config {key}: no method {text!r}{did_you_mean(text, _METHODS)} (methods: "
                f"{', '.join(_METHODS)})"
            )
        return _METHODS[text]
    if isinstance(default, bool):
        if text.lower() not in _WORDS:
            raise UsageError(f"--config {key}: {text!r} must be true or false")
        return _WORDS[text.lower()]
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"--config {key}: {text!r} is not an integer") from None
    return text
