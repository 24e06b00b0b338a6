"""The checks by theme, and the one list of them all."""

from services.cli.audit.checks import (
    certificates,
    devices,
    gang_api,
    gangs,
    nodes_themselves,
    probes,
    proxy,
    proxy_readiness,
    scale_to_zero,
    surroundings,
)
from services.cli.audit.registry import Check

CHECKS: tuple[Check, ...] = (
    *gang_api.CHECKS,
    *gangs.CHECKS,
    *proxy.CHECKS,
    *proxy_readiness.CHECKS,
    *devices.CHECKS,
    *scale_to_zero.CHECKS,
    *certificates.CHECKS,
    *surroundings.CHECKS,
    *probes.CHECKS,
    *nodes_themselves.CHECKS,
)
