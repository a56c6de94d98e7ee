"""Roles of processes, as role makers of PaddlePaddle 2.6.2 or of FluidLite find them."""

from __future__ import annotations

import warnings
from collections.abc import MutableMapping
from typing import Any

_ASKED = (
    "_is_worker _is_server _is_first_worker _worker_index _worker_num _server_index _server_num _role_id "
    "_node_num _get_trainer_endpoints _get_pserver_endpoints _is_non_distributed to_string"
)
_SERVED = {
    "TRAINING_ROLE": "PSERVER",
    "PADDLE_TRAINERS_NUM": "2",
    "PADDLE_TRAINER_ID": "1",
    "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:36001,127.0.0.2:36001",
    "POD_IP": "127.0.0.2",
    "PADDLE_PORT": "36001",
}
_RANKS = {
    "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:1,127.0.0.1:2,10.0.0.2:1",
    "PADDLE_CURRENT_ENDPOINT": "127.0.0.1:2",
    "PADDLE_TRAINER_ID": "1",
    "PADDLE_TRAINERS_NUM": "3",
    "TRAINING_ROLE": "TRAINER",
}
VARIABLES = {*_SERVED, *_RANKS}


def without(given: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in given.items() if key != name}


Row = tuple[dict[str, str], dict[str, Any]]
ENVIRONMENTS: list[Row] = [
    (_SERVED, {}),
    ({**_SERVED, "POD_IP": "127.0.0.1"}, {}),
    ({**_SERVED, "POD_IP": "127.0.0.9"}, {}),
    ({**_SERVED, "TRAINING_ROLE": "TRAINER"}, {}),
    ({**_SERVED, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ENDPOINTS": "a:1,b:2"}, {}),
    ({**_SERVED, "TRAINING_ROLE": "NOBODY"}, {}),
    ({**_SERVED, "PADDLE_TRAINERS_NUM": "x"}, {}),
    ({}, {}),
    *((without(_SERVED, name), {}) for name in _SERVED if name != "PADDLE_TRAINER_ID"),
    (without({**_SERVED, "TRAINING_ROLE": "TRAINER"}, "PADDLE_TRAINER_ID"), {}),
    (_RANKS, {"is_collective": True}),
    ({}, {"is_collective": True}),
    *((without(_RANKS, name), {"is_collective": True}) for name in _RANKS if name[-1] != "S"),
    ({**_RANKS, "TRAINING_ROLE": "PSERVER"}, {"is_collective": True}),
    *(({**_RANKS, "PADDLE_TRAINERS_NUM": number}, {"is_collective": True}) for number in ("", "x", "7")),
    ({**_RANKS, "PADDLE_TRAINER_ID": " 1"}, {"is_collective": True}),
    ({**_RANKS, "PADDLE_TRAINER_ID": ""}, {"is_collective": True}),
    ({**_SERVED, "TRAINING_ROLE": "trainer"}, {}),
    ({**_SERVED, "PADDLE_TRAINER_ENDPOINTS": "a:1,b:2,a:1"}, {}),
    ({**_SERVED, "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.2:36001,"}, {}),
]
_SERVERS = ["127.0.0.1:36011", "127.0.0.1:36012"]
USER_DEFINED: list[Row] = [
    ({}, {"current_id": 0, "role": 2, "worker_num": 2, "server_endpoints": _SERVERS}),
    ({}, {"current_id": 1, "role": 1, "worker_num": 2, "server_endpoints": _SERVERS}),
    ({}, {"current_id": 1, "role": 1, "worker_endpoints": ["a:1", "b:1"], "server_endpoints": _SERVERS}),
    ({}, {"current_id": 0, "role": 1}),
    ({}, {}),
    ({}, {"is_collective": True}),
    ({}, {"is_collective": True, "current_id": 0, "worker_num": 2}),
]


def answers(role_maker: Any, environment: MutableMapping[str, str], row: Row) -> dict[str, Any]:
    """The answers of a role maker about itself, or the type of its error."""
    variables, arguments = row
    for name in VARIABLES:
        environment.pop(name, None)
    environment.update(variables)
    user_defined = bool(set(arguments) - {"is_collective"}) or row in USER_DEFINED
    kind = role_maker.UserDefinedRoleMaker if user_defined else role_maker.PaddleCloudRoleMaker
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = kind(**arguments)
            made._generate_role()
        except Exception as error:
            return {"error": type(error).__name__}
        return {name: getattr(made, name)() for name in _ASKED.split()}
