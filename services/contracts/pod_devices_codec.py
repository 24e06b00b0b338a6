"""What pods and groups say about devices, between the core's values and `phalanx.cluster.v1.PodDevices`."""

from collections.abc import Iterable

from services.contracts.pb.cluster.v1 import cluster_pb2 as pb
from services.core import pod_devices as core


def encode_devices(devices: core.PodDevices) -> pb.PodDevices:
    """Return what a pod asks for as a message."""
    return pb.PodDevices(
        claims=encode_claims(devices.claims),
        extended=[
            pb.ContainerResource(
                index=one.index,
                position=one.position,
                container=one.container,
                resource=one.resource,
                amount=one.amount,
                initial=one.is_initial,
            )
            for one in devices.extended
        ],
        extended_claim=devices.extended_claim,
    )


def decode_devices(message: pb.PodDevices) -> core.PodDevices:
    """Return what a message says that a pod asks for."""
    return core.PodDevices(
        claims=decode_claims(message.claims),
        extended=tuple(
            core.ContainerResource(
                index=one.index,
                position=one.position,
                container=one.container,
                resource=one.resource,
                amount=one.amount,
                is_initial=one.initial,
            )
            for one in message.extended
        ),
        extended_claim=message.extended_claim,
    )


def encode_claims(claims: Iterable[core.PodClaim]) -> list[pb.PodClaim]:
    """Return entries of spec.resourceClaims as messages."""
    return [
        pb.PodClaim(entry=one.entry, claim=one.claim, template=one.template, unneeded=one.is_unneeded) for one in claims
    ]


def decode_claims(messages: Iterable[pb.PodClaim]) -> tuple[core.PodClaim, ...]:
    """Return the entries of messages."""
    return tuple(
        core.PodClaim(entry=one.entry, claim=one.claim, template=one.template, is_unneeded=one.unneeded)
        for one in messages
    )
