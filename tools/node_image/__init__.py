"""Makes node images for kind out of Debian's packages and Go modules: see docs/kind-image.md."""
