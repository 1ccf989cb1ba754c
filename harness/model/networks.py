"""The word for a cluster to which the suite brings no network plugin: in options, and in recipes."""

NO_CNI = "none"
