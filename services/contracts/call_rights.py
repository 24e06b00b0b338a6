"""Who may call what over gRPC, by the configuration file in force."""

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry

from services.contracts.policy_file import PolicySource
from services.core.authorization import Grant, identities_in, may_call
from services.runtime.clock import Clock
from services.runtime.rpc_access import RpcAccess, RpcMetrics
from services.runtime.tls import Tls


class PolicyRights:
    """The section `authorization`, asked anew for each call. Satisfies `services.runtime.rpc_access.CallRights`."""

    def __init__(self, grants: Callable[[], Sequence[Grant]]) -> None:
        """Keep where the entries come from."""
        self._grants = grants

    def identities(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the SPIFFE URIs, or else the DNS names."""
        return identities_in(names)

    def may_call(self, identities: Iterable[str], *, method: str) -> bool:
        """Tell whether an entry allows it."""
        return may_call(self._grants(), identities=identities, method=method)


def access_by(policy: PolicySource, *, tls: Tls | None, registry: CollectorRegistry, clock: Clock) -> RpcAccess:
    """Return the gate of a server whose callers have the rights that the configuration file gives them."""
    rights = PolicyRights(lambda: policy.value.authorization)
    return RpcAccess(tls=tls, rights=rights, metrics=RpcMetrics(registry), clock=clock)
