"""KEP-536: PodLocators, and the controller that writes them."""
