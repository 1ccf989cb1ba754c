"""Build node images for kind from Debian packages and Go modules: see docs/kind-image.md."""
