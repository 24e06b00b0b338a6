"""All services on real NATS, against the sandbox and against a real Kubernetes 1.37."""

import os

# Services are started from this process by fork and exec. gRPC's fork handlers, which run in between, end the child now
# and then while a server or channel of the test is busy; the variable is read when gRPC starts.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
