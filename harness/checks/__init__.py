"""The table of checks: what a machine or a cluster may lack, how to find out, the remedy, and the cost."""
