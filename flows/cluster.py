"""A Ray cluster: connect to it, send our code along, and make sure that every node can do the work.

Nodes need the same libraries as we have, which is checked, but neither our code, which Ray ships to them, nor a file
system that we share.
"""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import flows
import outclass
import stages
from flows.slots import ONE_THREAD
from outclass.errors import OutclassError
from stages import settings

PACKAGES = ("numpy", "pandas", "prefect", "prefect-ray", "pyarrow", "pydantic", "scipy", "torch")
"""What must be of one version everywhere: it computes results, or packs what is sent."""
PATIENCE = 60.0
"""Seconds that a node may take to answer."""


@dataclass(frozen=True)
class Node:
    """What a node says of itself."""

    address: str
    gpus: float  # that it declares
    sees_gpu: bool  # that torch finds
    versions: dict[str, str]
    api_error: str  # why it cannot reach the Prefect server, if so

    def __str__(self) -> str:
        return self.address


@contextmanager
def connected() -> Iterator[str]:
    """Be a driver of the cluster at OUTCLASS_RAY_ADDRESS; yields the host and port that answer for it."""
    asked = settings.load().ray_address
    _refuse_silence(asked)
    try:
        ray.init(
            asked,
            namespace="outclass",
            runtime_env=_environment(),
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except Exception as error:  # Ray raises whatever came to its mind
        raise OutclassError(_explain(asked, error)) from error
    try:
        yield _endpoint(asked) or ray.get_runtime_context().gcs_address
    finally:
        ray.shutdown()


def _environment() -> dict[str, Any]:
    """Our code, and how it is to run."""
    own = {**ONE_THREAD, **flows.ENVIRONMENT}
    modules = [str(Path(str(package.__file__)).parent) for package in (outclass, stages, flows)]
    return {"py_modules": modules, "excludes": ["__pycache__"], "env_vars": own}


def _endpoint(asked: str) -> str:
    """host:port of an address; nothing for ``auto``, which Ray itself looks up."""
    return urlsplit(asked if "//" in asked else f"//{asked}").netloc if ":" in asked else ""


def _refuse_silence(asked: str) -> None:
    """Ray would take minutes to find out."""
    if endpoint := _endpoint(asked):
        error = unreachable(endpoint)
        if error:
            raise OutclassError(
                f"OUTCLASS_RAY_ADDRESS={asked}: nothing answers there ({error}); start the cluster "
                f"(docs/cluster.md), correct the address, or set OUTCLASS_RUNNER=local"
            )


def unreachable(endpoint: str, patience: float = 5.0) -> str:
    """Why host:port does not answer; nothing if it does."""
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=patience).close()
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def _explain(asked: str, error: Exception) -> str:
    """Something answers at an address, but does not let us in: Ray keeps the reason to itself."""
    first = next(iter(str(error).splitlines()), type(error).__name__)
    if asked == "auto":
        cause = f"this machine is no node of a running cluster, or has not its token ({first})"
    else:
        cause = f"it answers, but lets nobody in ({first}): no Ray cluster, or one that asks for another token"
    return (
        f"OUTCLASS_RAY_ADDRESS={asked}: {cause}. A cluster and those who use it share RAY_AUTH_MODE=token and "
        f"RAY_AUTH_TOKEN; docs/cluster.md says how to start one"
    )


def inspect(api: str) -> list[Node]:
    """Ask every living node; those that could not do the work are refused, all of them by name."""
    living = _living()
    _refuse_loopback(api, {node["NodeManagerAddress"] for node in living})
    asked = [_ask(node, api) for node in living]
    _, late = ray.wait(asked, num_returns=len(asked), timeout=PATIENCE)
    if late:
        silent = [node["NodeManagerAddress"] for node, ref in zip(living, asked, strict=True) if ref in late]
        raise OutclassError(
            f"Ray nodes {', '.join(silent)} did not answer within {PATIENCE:.0f} s: see Ray's logs there"
        )
    nodes = [answer for node, ref in zip(living, asked, strict=True) if (answer := _answer(node, ref))]
    _refuse_unfit(nodes, api)
    return nodes


def _answer(node: Any, reference: Any) -> Node | None:
    """What a node says; nothing if it has died meanwhile."""
    try:
        answer: Node = ray.get(reference)
        return answer
    except RayError as error:
        if node["NodeID"] not in {other["NodeID"] for other in _living()}:
            return None
        cause = (str(error).strip() or type(error).__name__).splitlines()[-1]
        raise OutclassError(
            f"Ray node {node['NodeManagerAddress']} cannot run our code ({cause}): "
            f"install what constraints.txt says there"
        ) from error


def no_room(num_gpus: float) -> str:
    """Why no living node could ever take a training; nothing if one can. Ray itself would wait for such a node."""
    declared = [node["Resources"] for node in _living()]
    if any(has.get("CPU", 0) >= 1 and has.get("GPU", 0) >= num_gpus for has in declared):
        return ""
    needs = f"one CPU and {num_gpus:g} of a GPU" if num_gpus else "one CPU"
    return f"no living node of the Ray cluster has the {needs} that a training asks for"


def _living() -> list[Any]:
    return [node for node in ray.nodes() if node["Alive"]]


def _ask(node: Any, api: str) -> Any:
    here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    # A process of its own: it looks at all GPUs, and no training may come to sit in it.
    asked = ray.remote(num_cpus=0, max_calls=1)(describe).options(scheduling_strategy=here)
    return asked.remote(node["NodeManagerAddress"], node["Resources"].get("GPU", 0.0), api)


def describe(address: str, gpus: float, api: str) -> Node:
    """On a node: what it is."""
    return Node(address, gpus, gpus > 0 and _sees_gpu(), _versions(), _api_error(api))


def _sees_gpu() -> bool:
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # Ray may hide GPUs from those who asked for none
    import torch

    return torch.cuda.is_available()


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def _api_error(api: str) -> str:
    try:
        httpx.get(f"{api}/health", timeout=10).raise_for_status()
    except httpx.HTTPError as error:
        return str(error) or type(error).__name__
    return ""


def _refuse_loopback(api: str, addresses: set[str]) -> None:
    host = urlsplit(api).hostname or ""
    if len(addresses) > 1 and (host == "localhost" or _is_loopback(host)):
        raise OutclassError(
            f"the Prefect API is at {api}, which is another place on each of the cluster's machines "
            f"({', '.join(sorted(addresses))}): start `prefect server start --host 0.0.0.0` where all of them reach it "
            f"and set PREFECT_API_URL to its address (docs/cluster.md)"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _refuse_unfit(nodes: list[Node], api: str) -> None:
    wrong = [
        f"node {node} has {name} {node.versions[name]}, this machine {ours}: install what constraints.txt says there"
        for node in nodes
        for name, ours in _versions().items()
        if node.versions[name] != ours
    ]
    wrong += [
        f"node {node} cannot reach the Prefect API at {api} ({node.api_error}): "
        f"set PREFECT_API_URL to an address that all nodes reach"
        for node in nodes
        if node.api_error
    ]
    if wrong:
        raise OutclassError("\n".join(["the Ray cluster cannot do this work:", *wrong]))


def choose_device(asked: str, nodes: list[Node]) -> str:
    """``cuda`` or ``cpu`` for a whole run: kinds of device differ in the last bits, so they are not mixed."""
    declared = [node for node in nodes if node.gpus]
    blind = [node for node in declared if not node.sees_gpu]
    if asked == "cuda" and not declared:
        raise OutclassError("OUTCLASS_DEVICE=cuda, but no node of the Ray cluster declares a GPU (--num-gpus)")
    if asked == "cpu" or not declared:
        return "cpu"
    if blind and (asked == "cuda" or len(blind) < len(declared)):
        names = ", ".join(map(str, blind))
        raise OutclassError(
            f"Ray nodes {names} declare GPUs, but torch sees none there: "
            f"check their drivers, or set OUTCLASS_DEVICE=cpu"
        )
    return "cpu" if blind else "cuda"
