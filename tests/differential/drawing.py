"""Makes the scenario of a seed. The same seed gives the same scenario on every machine."""

import random

from tests.differential.drawing_cluster import Site, draw_nodes, draw_site, draw_standing, namespaces
from tests.differential.drawing_gangs import draw_gangs
from tests.differential.drawing_pods import runtime_class_name
from tests.differential.drawing_volumes import attach_limits
from tests.differential.scenarios import Manifest, Scenario

RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"


def draw_scenario(seed: int) -> Scenario:
    """The scenario of that seed."""
    draw = random.Random(f"differential-{seed}")
    site = draw_site(seed, draw)
    nodes = draw_nodes(site, draw)
    standing = draw_standing(site, draw, nodes=nodes)
    drawn = draw_gangs(site, draw, nodes=nodes)
    return Scenario(
        seed=seed,
        namespace=site.namespace,
        namespaces=namespaces(site),
        nodes=nodes,
        standing=(*standing, *drawn.standing),
        claims=tuple(drawn.claims),
        others={
            RUNTIME_CLASSES: (_heavy_class(site),),
            CSI_NODES: attach_limits(site, draw, nodes=nodes) if drawn.claims else (),
        },
        gangs=tuple(drawn.gangs),
        features=site.features,
    )


def _heavy_class(site: Site) -> Manifest:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": runtime_class_name(site), "labels": site.labels},
        "handler": "heavy",
        "overhead": {"podFixed": {"cpu": "500m", "memory": "256Mi"}},
    }
