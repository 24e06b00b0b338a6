"""What an installation consists of: manifests, chart, images, and the programs that make them."""
