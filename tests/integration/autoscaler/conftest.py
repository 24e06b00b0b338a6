"""Servers of metric sources for the tests of this folder."""

from tests.integration.autoscaler.source_servers import prometheus_url, redis_port

__all__ = ("prometheus_url", "redis_port")
