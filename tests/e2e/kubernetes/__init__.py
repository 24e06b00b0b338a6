"""All services together on a real Kubernetes control plane, with the rights that `deploy/base/rbac.yaml` gives them."""
