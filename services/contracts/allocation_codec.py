"""Claim allocations between the core's values and `phalanx.placement.v1.ClaimAllocation`."""

from collections.abc import Iterable

from services.contracts.pb.placement.v1 import allocation_pb2 as pb
from services.core import allocations as core
from services.core.objects import NodeName, Uid


def encode_allocations(allocations: Iterable[core.ClaimAllocation]) -> list[pb.ClaimAllocation]:
    """Return allocations as messages."""
    return [
        pb.ClaimAllocation(
            claim=pb.ClaimRef(
                namespace=one.ref.namespace,
                name=one.ref.name,
                uid=one.ref.uid,
                pod=one.ref.pod,
                entry=one.ref.entry,
            ),
            consumers=one.consumers,
            results=[_encode_result(result) for result in one.results],
            node=one.node,
            node_selector_json=one.node_selector_json,
            of_group=one.is_of_group,
            extended=[
                pb.ExtendedRequest(
                    name=request.name,
                    container=request.container,
                    resource=request.resource,
                    device_class=request.device_class,
                    count=request.count,
                )
                for request in one.extended
            ],
        )
        for one in allocations
    ]


def decode_allocations(messages: Iterable[pb.ClaimAllocation]) -> tuple[core.ClaimAllocation, ...]:
    """Return the allocations that messages state."""
    return tuple(
        core.ClaimAllocation(
            ref=core.ClaimRef(
                namespace=one.claim.namespace,
                name=one.claim.name,
                uid=Uid(one.claim.uid),
                pod=Uid(one.claim.pod),
                entry=one.claim.entry,
            ),
            consumers=tuple(Uid(uid) for uid in one.consumers),
            results=tuple(_decode_result(result) for result in one.results),
            node=NodeName(one.node),
            node_selector_json=one.node_selector_json,
            is_of_group=one.of_group,
            extended=tuple(
                core.ExtendedRequest(
                    name=request.name,
                    container=request.container,
                    resource=request.resource,
                    device_class=request.device_class,
                    count=request.count,
                )
                for request in one.extended
            ),
        )
        for one in messages
    )


def encode_devices(devices: Iterable[core.DeviceId]) -> list[pb.DeviceId]:
    """Return names of devices as messages, sorted."""
    return [pb.DeviceId(driver=one.driver, pool=one.pool, device=one.device) for one in sorted(devices)]


def decode_devices(messages: Iterable[pb.DeviceId]) -> tuple[core.DeviceId, ...]:
    """Return the names of devices that messages state."""
    return tuple(core.DeviceId(driver=one.driver, pool=one.pool, device=one.device) for one in messages)


def _encode_result(result: core.DeviceResult) -> pb.DeviceResult:
    return pb.DeviceResult(
        request=result.request,
        driver=result.driver,
        pool=result.pool,
        device=result.device,
        admin_access=result.is_admin,
        share=result.is_share,
        consumed=dict(result.consumed),
        tolerations=[
            pb.DeviceToleration(
                key=one.key,
                operator=one.operator,
                value=one.value,
                effect=one.effect,
                toleration_seconds=one.seconds,
            )
            for one in result.tolerations
        ],
        binding_conditions=result.binding_conditions,
        binding_failure_conditions=result.binding_failure_conditions,
    )


def _decode_result(message: pb.DeviceResult) -> core.DeviceResult:
    return core.DeviceResult(
        request=message.request,
        driver=message.driver,
        pool=message.pool,
        device=message.device,
        is_admin=message.admin_access,
        is_share=message.share,
        consumed=tuple(sorted(message.consumed.items())),
        tolerations=tuple(
            core.DeviceToleration(
                key=one.key,
                operator=one.operator,
                value=one.value,
                effect=one.effect,
                seconds=one.toleration_seconds if one.HasField("toleration_seconds") else None,
            )
            for one in message.tolerations
        ),
        binding_conditions=tuple(message.binding_conditions),
        binding_failure_conditions=tuple(message.binding_failure_conditions),
    )
