"""KEP-2086, and externalTrafficPolicy: traffic policies, alone and together with hints."""
