"""How many pods that hold a place are meant by a term, on each node: where counters of rules begin."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from services.core.constraints import LabelSelector, PodTerm
from services.core.inventory import Snapshot
from services.core.labels import labels_of_namespace, means, selects
from services.core.objects import Pod

Counts = NDArray[np.int64]


def of_terms(snapshot: Snapshot, terms: tuple[PodTerm, ...]) -> Counts:
    """Return how many pods on each node are meant by all of the terms."""
    return _tally(
        snapshot, _namespaces_of(snapshot, terms[0]), lambda pod: all(_means(snapshot, one, pod) for one in terms)
    )


def of_spread(snapshot: Snapshot, selector: LabelSelector | None, *, namespace: str) -> Counts:
    """Return how many pods on each node count for a spread: those of the namespace that do not terminate.

    An empty selector counts nobody who is there, though it selects the pod itself: so kube-scheduler has it.
    """
    if selector is None or not selector.requirements:
        return np.zeros(len(snapshot.names), dtype=np.int64)
    return _tally(snapshot, (namespace,), lambda pod: not pod.is_terminating and selects(selector, pod.metadata.labels))


def _means(snapshot: Snapshot, term: PodTerm, pod: Pod) -> bool:
    namespace = pod.metadata.namespace
    return means(
        term,
        namespace=namespace,
        labels=pod.metadata.labels,
        namespace_labels=labels_of_namespace(snapshot.namespaces, namespace),
    )


def _namespaces_of(snapshot: Snapshot, term: PodTerm) -> Iterable[str]:
    """Return the namespaces in which the term's pods may be."""
    return term.namespaces if term.namespace_selector is None else snapshot.occupied_namespaces()


def _tally(snapshot: Snapshot, namespaces: Iterable[str], wanted: Callable[[Pod], bool]) -> Counts:
    counts = np.zeros(len(snapshot.names), dtype=np.int64)
    for namespace in namespaces:
        for one in snapshot.in_namespace(namespace):
            row = snapshot.rows.get(one.node)
            if row is not None and wanted(one.pod):
                counts[row] += 1
    return counts
