"""The commands of `trafficdist`, a file each. They import little at the top: `--help` and the tab key must not wait."""
