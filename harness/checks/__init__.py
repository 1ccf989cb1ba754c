"""The table of checks: what a machine or a cluster may lack, the check for it, the remedy, and the cost."""
