"""The sandbox as a process: its command line, its kubeconfig, and its end."""

import asyncio
import json
import signal
import sys
from pathlib import Path

import aiohttp
import yaml
from click.testing import CliRunner

from services.sandbox.command import main
from tests.e2e.waiting import until


async def test_process_serves_and_stops(tmp_path: Path) -> None:
    """It writes a kubeconfig and its port once it listens, has its nodes, and ends cleanly on SIGTERM."""
    config, ports = tmp_path / "kubeconfig", tmp_path / "ports.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.sandbox", "--address", "127.0.0.1:0", "--nodes", "3"),
        *("--gpus-per-node", "4", "--kubeconfig", str(config)),
        env={"PHALANX_PORT_FILE": str(ports), "PATH": ""},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            line = (await process.stdout.readline()).decode()
            await until(config.exists, what="the kubeconfig")
        url = yaml.safe_load(config.read_text())["clusters"][0]["cluster"]["server"]
        async with aiohttp.ClientSession(url) as session:
            async with session.get("/api/v1/nodes") as response:
                nodes = (await response.json())["items"]
            async with session.get("/version") as response:
                version = await response.json()
            codes = []
            for path in ("/livez", "/readyz"):
                async with session.get(path) as response:
                    codes.append(response.status)
            # An open watch must not keep the process from ending.
            async with session.get("/api/v1/nodes?watch=1"):
                process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(10):
                    code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert code == 0
    assert line.strip() == f"sandbox listens on {url}"
    assert url.endswith(f":{json.loads(ports.read_text())['http']}")
    assert [node["metadata"]["name"] for node in nodes] == ["node-001", "node-002", "node-003"]
    assert nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert not nodes[0]["spec"].get("taints")
    assert version["gitVersion"] == "v1.37.2"
    assert codes == [200, 200]


def test_wrong_settings_are_explained() -> None:
    """Bad addresses and unknown APIs end with an error that names them."""
    address = CliRunner().invoke(main, ["--address", "nowhere"])
    api = CliRunner().invoke(main, ["--address", "127.0.0.1:0", "--api", "unicorns.example.com=v1"])
    assert address.exit_code == 2
    assert "expected HOST:PORT" in address.output
    assert api.exit_code == 1
    assert "unicorns.example.com" in api.output
