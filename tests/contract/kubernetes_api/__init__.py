"""What Phalanx relies on in the Kubernetes API, as a table that sandbox and real API server must both satisfy."""
