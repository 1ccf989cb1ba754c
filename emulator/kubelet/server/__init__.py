"""The HTTPS server of a kubelet, by which an API server gets at logs, programs in containers, and ports of pods."""
