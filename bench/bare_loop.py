"""Bind pods with aiohttp as fast as it can, and say how long that took: what the binder is measured against.

    python -m bench.bare_loop --kubeconfig FILE --namespace NS --connections 16

The first line of standard input is a JSON array of targets, `{"pod", "node", "uid", "version"}`. It opens its
connections, prints `ready`, waits for a second line, binds, and prints one JSON object; as `bindingloop` in
`tests/kubernetes` does in Go. Everything that can be made beforehand is made beforehand, and nothing is done with the
answers.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import click
import orjson
import uvloop
from yarl import URL

from tests.kubernetes.connection import Target

_CREATED = 201
TRANSACTION = "01J9ZK3N7M0Q4T6V8W2X5Y1Z3A"


@click.command(help=__doc__)
@click.option("--kubeconfig", type=click.Path(path_type=Path), required=True)
@click.option("--namespace", required=True)
@click.option("--connections", default=16)
def main(kubeconfig: Path, namespace: str, connections: int) -> None:
    """Run the loop."""
    uvloop.run(_run(Target.from_kubeconfig(kubeconfig), namespace=namespace, connections=connections))


async def _run(target: Target, *, namespace: str, connections: int) -> None:
    requests = list(_requests(target, namespace=namespace, targets=orjson.loads(sys.stdin.readline())))
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, ssl=target.tls or True),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={
            "Authorization": f"Bearer {target.token}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        },
    ) as session:

        async def warm() -> None:
            async with session.get(URL(target.url + "/version")) as response:
                await response.read()

        await asyncio.gather(*(warm() for _ in range(connections)))
        # As a process that has run for a while: its long-lived objects are not looked through again.
        gc.collect()
        gc.freeze()
        print("ready", flush=True)
        sys.stdin.readline()
        print(orjson.dumps(await _bind_all(session, requests, workers=connections)).decode(), flush=True)


def _requests(target: Target, *, namespace: str, targets: list[dict[str, str]]) -> Iterator[tuple[URL, bytes]]:
    """Addresses and bodies, with exactly the fields that the binder sends."""
    for one in targets:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": one["pod"],
                "namespace": namespace,
                "uid": one["uid"],
                "resourceVersion": one["version"],
                "annotations": {"phalanx.dev/transaction": TRANSACTION},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": one["node"]},
        }
        yield URL(f"{target.url}/api/v1/namespaces/{namespace}/pods/{one['pod']}/binding"), orjson.dumps(body)


async def _bind_all(
    session: aiohttp.ClientSession, requests: list[tuple[URL, bytes]], *, workers: int
) -> dict[str, Any]:
    waiting, bound, problem = iter(requests), 0, ""

    async def work() -> None:
        nonlocal bound, problem
        for url, body in waiting:
            async with session.post(url, data=body) as response:
                answer = await response.read()
                if response.status == _CREATED:
                    bound += 1
                else:
                    problem = answer.decode(errors="replace")

    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())
    return {"seconds": time.perf_counter() - began_s, "bound": bound, "problem": problem}


if __name__ == "__main__":
    main()
