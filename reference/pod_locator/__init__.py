"""The PodLocator controller of KEP-536."""

from reference.pod_locator.controller import PodLocatorController

__all__ = ["PodLocatorController"]
